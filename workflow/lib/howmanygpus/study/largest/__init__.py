"""Plans the searches for the largest batch that fits, and puts their results in place of `max`."""
