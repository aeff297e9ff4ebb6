"""
Messages to the user of one call of Snakemake: why jobs wait, why they failed, and what to do at the end.

What a call does around Snakemake: the object that the rules use, an executor for SLURM, failures, signals, and patches.

Functions of Snakemake are replaced in `planning` alone. docs/upstream.md describes each problem for the maintainers,
with a minimal example.
"""
