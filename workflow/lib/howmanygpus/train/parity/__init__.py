"""Observe what a framework does with the parity gate's fixed task, and compute the reference result."""
