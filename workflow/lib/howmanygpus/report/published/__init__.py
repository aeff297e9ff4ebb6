"""Published numbers, read and drawn beside measured ones."""
