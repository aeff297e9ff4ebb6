"""Locates the project for the benchmarks, and prints and stores their results."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = ROOT / "workflow" / "lib"
sys.path[:0] = [str(LIBRARY), str(ROOT / "tests" / "sandbox")]

import pandas as pd  # noqa: E402


def write_benchmark(name: str, rows: list[dict]) -> None:
    """Print the rows as a table and write results/benchmarks/<name>.tsv."""
    table = pd.DataFrame(rows)
    path = ROOT / "results" / "benchmarks" / f"{name}.tsv"
    path.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(path, sep="\t", index=False, float_format="%.4g")
    print(table.to_string(index=False, float_format=lambda value: f"{value:.4g}"))
