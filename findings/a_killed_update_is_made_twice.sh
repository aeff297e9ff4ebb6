#!/usr/bin/env bash
# Finding:  When Snakemake is killed while a job works on an update() output, the next call with --rerun-incomplete
#           takes the half-updated file for the one to update, and overwrites the backup of the old one with it: rows
#           are added twice. A job that fails and is tried again in the same call begins with the old file.
# Packages: snakemake==9.27.1
# Topic:    Snakemake and SLURM
# Source:   snakemake/jobs.py: Job.prepare backs up each update() output that exists, and only Job.postprocess restores
#           it.
# Guess:    the backup that the killed call has left is restored before the job begins again (confidence 75 %).
# Hurts:    databases, logs and tables of results that grow by update(), after a time limit or a failed node.
# Here:     no output is updated in place
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > Snakefile <<'S'
import os

onstart:
    with open("pid", "w") as file:
        print(os.getpid(), file=file)

rule add:
    input: "new.csv"
    output: update("all.csv")
    shell: "cat {input} >> {output}; eval $(cat ending)"
S

call() {
    echo "$1" > ending
    "$python" -m snakemake --cores 1 --quiet all "${@:2}" > log.txt 2>&1 || true
    tr '\n' ' ' < all.csv
}

echo one > new.csv
first=$(call true)
sleep 1.1
echo two > new.csv
retried=$(call '[ -e tried ] || { touch tried; false; }' --retries 1)
sleep 1.1
echo three > new.csv
killed=$(call 'kill -KILL $(cat pid)')
"$python" -m snakemake --unlock --quiet all
resumed=$(call true --rerun-incomplete)
echo "snakemake $("$python" -m snakemake --version): $first| with a retry: $retried| killed: $killed| then: $resumed"
[ "$first$retried" = "one one two " ]
[ "$killed" = "one two three " ]
[ "$resumed" = "one two three three " ]
