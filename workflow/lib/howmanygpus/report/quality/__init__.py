"""What the trained networks predicted, and the names of what they predict."""
