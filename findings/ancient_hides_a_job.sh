#!/usr/bin/env bash
# Finding:  Snakemake does not run a job whose output is missing if the job depends by ancient() on a file that another
#           job of the same call makes again; it reports success.
# Packages: snakemake==9.27.1
# Topic:    Snakemake and SLURM
# Source:   DAG.update_needrun masks all descendants of a job that runs; the later search drops those that are reached
#           through ancient() files alone, without checking them. https://github.com/snakemake/snakemake/issues/4166
# Guess:    ancient() only ignores the age of the file, so that the missing output is made.
# Hurts:    whoever uses ancient() to keep a rebuilt tool or environment from rerunning results.
# Here:     invocation/patches.py checks jobs that are reached through existing ancient() files alone
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > Snakefile <<'S'
rule all:
    input: "results.txt"

rule tool:
    output: "tool.txt"
    shell: "touch {output}"

rule measure:
    input: ancient("tool.txt")
    output: "measured.txt"
    shell: "touch {output}"

rule summarize:
    input: "measured.txt"
    output: "results.txt"
    shell: "touch {output}"
S
touch tool.txt
"$python" -m snakemake --cores 1 --forcerun tool --quiet all
[ -e results.txt ] && first=made || first=missing
"$python" -m snakemake --cores 1 --quiet all
[ -e results.txt ] && second=made || second=missing
echo "results.txt after a successful call that makes tool.txt again: $first; after a second call: $second"
[ "$first $second" = "missing made" ]
