#!/usr/bin/env bash
# Finding:  cpu_time of Snakemake's benchmark files lacks the processes that end between two looks, up to 30 s apart: forty
#           processes of 0.15 s, which take 6 s of processor time, are counted as less than half of it.
# Packages: snakemake==9.27.1
# Topic:    Snakemake and SLURM
# Source:   snakemake/benchmark.py adds the times of the children that psutil sees alive.
# Guess:    ended children count too, as in the shell's time.
# Hurts:    rules that start many short programs (converting images one by one) look nearly free.
# Here:     no rule uses benchmark:
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > Snakefile <<'S'
rule burn:
    output: "burned.txt"
    benchmark: "burned.tsv"
    shell: "for i in $(seq 40); do python3 burn.py; done; touch {output}"
S
cat > burn.py <<'P'
import time

while time.process_time() < 0.15:
    pass
P
"$python" -m snakemake --cores 1 --quiet all
"$python" - <<'P'
import csv
import sys

(row,) = csv.DictReader(open("burned.tsv"), delimiter="\t")
print(f"processor time by the benchmark file: {row['cpu_time']} s of at least 6 s")
sys.exit(not float(row["cpu_time"]) < 3)
P
