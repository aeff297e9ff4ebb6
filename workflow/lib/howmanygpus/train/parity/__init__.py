"""The measured half of the parity gate: what a framework does with a fixed task, and what it should do."""
