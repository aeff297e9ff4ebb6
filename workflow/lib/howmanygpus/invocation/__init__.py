"""
One call of Snakemake: the object that the rules use, passes, an executor for SLURM, failures, signals and messages.

Functions of Snakemake are replaced in `patches` alone. docs/upstream.md describes each problem.
"""
