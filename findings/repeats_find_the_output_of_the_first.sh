#!/usr/bin/env bash
# Finding:  The repeats of benchmark: repeat("times.tsv", 3) find the output of the one before: Snakemake removes
#           outputs before the first alone. A program that resumes from its checkpoint, or skips what exists, is timed
#           once and does nothing twice; one that appends has a result three times as long.
# Packages: snakemake==9.27.1
# Topic:    Snakemake and SLURM
# Source:   snakemake/executors/local.py: run_wrapper calls the job in a loop; Job.prepare, which removes outputs, is
#           called once before.
# Guess:    each repeat begins as a job does, without output (confidence 60 %).
# Hurts:    comparisons of programs by the mean of repeats: the one that resumes seems three times as fast.
# Here:     no rule uses benchmark:, and each repeat is a job of its own with a folder of its own
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > Snakefile <<'S'
rule train:
    output: "trained.txt"
    benchmark: repeat("times.tsv", 3)
    shell: "if [ -e {output} ]; then echo resumed >> {output}; else sleep 3; echo trained > {output}; fi"
S
"$python" -m snakemake --cores 1 --quiet all
first=$(tr '\n' ' ' < trained.txt)
seconds=$(tail -n +2 times.tsv | cut -f 1 | tr '\n' ' ')
"$python" -m snakemake --cores 1 --quiet all --forceall
second=$(tr '\n' ' ' < trained.txt)
echo "snakemake $("$python" -m snakemake --version), three repeats: ${first}in ${seconds}s; by --forceall: $second"
[ "$first" = "trained resumed resumed " ]
[ "$second" = "$first" ]
