"""One machine or cluster."""
