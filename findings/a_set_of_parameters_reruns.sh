#!/usr/bin/env bash
# Finding:  A rule with a set among its params runs again at each call of Snakemake: the set is stored as the text of
#           its elements in their order, which is another in each process. The reason shows two equal sets.
# Packages: snakemake==9.27.1
# Topic:    Snakemake and SLURM
# Source:   params are recorded by repr(), and Python orders texts in a set by a hash that differs by process.
# Guess:    sets are compared as sets.
# Hurts:    a long job that is done again for nothing, and all that depends on it.
# Here:     params are texts, numbers and sorted lists
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > Snakefile <<'S'
rule all:
    output: "done.txt"
    params: names={"alpha", "beta", "gamma", "delta", "epsilon", "zeta"}
    shell: "echo run >> runs.txt; touch {output}"
S
for _ in 1 2 3 4; do env -u PYTHONHASHSEED "$python" -m snakemake --cores 1 > call.txt 2>&1; done
runs=$(wc -l < runs.txt)
echo "runs of the rule in four calls: $runs; the last reason: $(grep -m 1 "Params have changed" call.txt || true)"
[ "$runs" -gt 1 ]
