"""Plans the searches for the largest batch that fits, and takes what they found in place of `max`."""
