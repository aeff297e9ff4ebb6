"""Shows the progress of a call: a live view on a terminal, and otherwise one line for each run that has ended."""
