"""The measured side: starts and trains one run. Standard library, numpy and envs/measured.txt only."""
