"""When a test says that something hangs."""

HANG_S = 2400.0
"""Seconds that a test waits for what should happen. Four tests at once on two slow cores take ten times as long."""
