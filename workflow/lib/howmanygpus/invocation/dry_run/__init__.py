"""Says what a call would do, why, and how long it would take: the summary that a dry run prints."""
