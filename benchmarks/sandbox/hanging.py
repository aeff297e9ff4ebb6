"""When a test says that something hangs."""

HANG_S = 2400.0
"""Seconds for which a test waits for what should happen: on two slow cores, four tests at once take ten times as long."""
