"""The planning side: turns config and machine file into planned runs. Imported by the Snakefile, in .venv."""
