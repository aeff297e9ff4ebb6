"""Observe how a framework does the parity gate's fixed task, and compute the reference result."""
