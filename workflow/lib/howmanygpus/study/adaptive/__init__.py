"""Decides from measurements which configurations of a grid are worth their devices, and why the others are not."""
