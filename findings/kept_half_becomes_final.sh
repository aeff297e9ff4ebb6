#!/usr/bin/env bash
# Finding:  With --keep-incomplete, the output of a job that failed counts as finished in the next call without the option:
#           Snakemake says that there is nothing to do and ends with 0.
# Packages: snakemake==9.27.1
# Topic:    Snakemake and SLURM
# Source:   the mark of an incomplete output is removed when the failed job is cleaned up, whether the file is or not.
# Guess:    the output stays marked as incomplete, so that the job is done again or --rerun-incomplete is asked for.
# Hurts:    whoever keeps half results to look at them, and repeats the call.
# Here:     a run writes into a folder of its attempt, and its result appears whole
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > Snakefile <<'S'
rule make:
    output: "made.txt"
    shell: "echo half > {output}; test -e ready && echo whole >> {output}"
S
"$python" -m snakemake --cores 1 --quiet all --keep-incomplete >/dev/null 2>&1 && first=0 || first=$?
touch ready
"$python" -m snakemake --cores 1 --quiet all && second=0 || second=$?
echo "exit status $first, then $second; the output after both: $(tr '\n' ' ' < made.txt)"
[ "$first $second $(cat made.txt)" = "1 0 half" ]
