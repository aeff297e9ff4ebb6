"""A model of the user: found, checked without its framework, and hashed."""
