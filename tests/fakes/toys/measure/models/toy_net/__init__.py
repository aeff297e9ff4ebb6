"""One dense layer."""
