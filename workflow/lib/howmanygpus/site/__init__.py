"""
Compares what jobs request with what the cluster offers, and decides what further attempts request.

One machine or cluster.
"""
