"""Decides from measurements which cells of a grid are worth their devices, and says why the others are not."""
