"""Turns the config and the machine file into planned runs. The Snakefile imports it in .venv."""
