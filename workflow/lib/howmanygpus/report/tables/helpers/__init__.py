"""Code that only tables use."""
