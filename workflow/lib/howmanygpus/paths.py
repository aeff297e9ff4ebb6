"""Paths that several steps use, relative to the folder of the call. Rules write their paths out."""

from pathlib import Path

RUNS = Path("results/runs")
"""A folder for each run with an outcome. `run.json` in it appears last."""
ATTEMPTS = Path("results/attempts")
"""A folder for each try at a run that has no outcome, below the run's path."""
JOBS = Path("results/jobs")
"""A record for each job that used devices."""
JOB_LOGS = Path("results/logs/slurm")
"""The executor plugin keeps the logs of failed jobs here, by the job's id, unless `slurm-logdir` says otherwise."""
SCRIPTS = Path("results/scripts")
"""Batch scripts that do single runs without Snakemake, named by the run's path."""
TABLES = Path("results/tables")
FIGURES = Path("results/figures")
STATE = Path(".snakemake/howmanygpus")
"""What calls of Snakemake in one folder keep for each other and for their jobs."""
