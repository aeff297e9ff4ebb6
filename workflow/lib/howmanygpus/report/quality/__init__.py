"""The predictions of trained networks, and the names of classes."""
