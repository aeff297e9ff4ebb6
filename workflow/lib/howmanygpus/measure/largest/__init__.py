"""The largest batch that fits on one device: which sizes are tried, and how one try is done and judged."""
