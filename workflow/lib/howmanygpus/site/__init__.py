"""One machine or cluster: what it offers, what jobs request there, how they ended, and its environments."""
