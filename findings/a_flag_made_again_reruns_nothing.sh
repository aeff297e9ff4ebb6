#!/usr/bin/env bash
# Finding:  A rule whose input is a flag of touch() does not run again after the rule of the flag did in a call of its own:
#           the flag is newer but has the same content, nothing. Snakemake says that there is nothing to do. If one
#           call does both, or the flag holds a number that changes, it runs.
# Packages: snakemake==9.27.1
# Topic:    Snakemake and SLURM
# Source:   newer inputs of up to --max-checksum-file-size (1 MB) count as changed only if their checksum differs.
# Guess:    an input that was made again after the output, by another job, makes the output out of date.
# Hurts:    "trained.done" and "installed.done": steps are repeated one by one, and the table at the end stays old.
# Here:     no rule marks its end by a flag; outputs are the files themselves
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > Snakefile <<'S'
rule report:
    input: config["flag"]
    output: "report.txt"
    shell: "cat trained.txt > {output}"

rule train:
    input: "images.txt"
    output: touch("trained.done")
    shell: "cp {input} trained.txt"

rule train_and_count:
    input: "images.txt"
    output: "trained.stamp"
    shell: "cp {input} trained.txt; date +%s%N > {output}"
S
found=""
for flag in trained.done trained.stamp; do
    rm -f report.txt
    echo old > images.txt
    "$python" -m snakemake --cores 1 --quiet all --config flag=$flag -- report.txt
    sleep 1.1
    echo new > images.txt
    "$python" -m snakemake --cores 1 --quiet all --config flag=$flag -- $flag
    [ "$flag" -nt report.txt ]
    "$python" -m snakemake --cores 1 --quiet all --config flag=$flag -- report.txt
    found="$found$flag: report of $(cat report.txt) images, trained on $(cat trained.txt) ones. "
done
echo "snakemake $("$python" -m snakemake --version): $found"
[ "$found" = "trained.done: report of old images, trained on new ones. trained.stamp: report of new images, \
trained on new ones. " ]
