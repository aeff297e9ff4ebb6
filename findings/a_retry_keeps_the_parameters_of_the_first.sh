#!/usr/bin/env bash
# Finding:  When Snakemake runs a job on the same machine again, its params are those of the first attempt: with
#           mem_mb=1000 * attempt and heap=lambda wildcards, resources: resources.mem_mb, the second attempt has
#           {resources.mem_mb} 2000 and {params.heap} 1000, in a shell command and in a run: block. On a cluster, where
#           each attempt is a call of its own with --attempt 2, both are 2000.
# Packages: snakemake==9.27.1
# Topic:    Snakemake and SLURM
# Source:   the setter of Job.attempt in snakemake/jobs.py forgets the resources and not the params.
#           https://github.com/snakemake/snakemake/issues/2483
# Guess:    params that are computed from resources follow them (confidence 95 %).
# Hurts:    the usual pattern for Java's heap, batch sizes and buffers: all retries fail as the first did, or go on with
#           the small value in twice the memory.
# Here:     no parameter is computed from resources, and profiles/local has no retries
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > Snakefile <<'S'
def get_heap(wildcards, resources):
    return resources.mem_mb

rule all:
    input: "command.txt", "block.txt"

rule command:
    output: "command.txt"
    retries: 1
    resources: mem_mb=lambda wildcards, attempt: 1000 * attempt
    params: heap=get_heap
    shell: "test {resources.mem_mb} = 2000; echo {resources.mem_mb} {params.heap} > {output}"

rule block:
    output: "block.txt"
    retries: 1
    resources: mem_mb=lambda wildcards, attempt: 1000 * attempt
    params: heap=get_heap
    run:
        assert resources.mem_mb == 2000
        with open(output[0], "w") as file:
            print(resources.mem_mb, params.heap, file=file)
S
"$python" -m snakemake --cores 1 > log.txt 2>&1 || { cat log.txt; exit 1; }
retried="$(cat command.txt) and $(cat block.txt)"
"$python" -m snakemake --cores 1 --forceall --attempt 2 > log.txt 2>&1 || { cat log.txt; exit 1; }
called="$(cat command.txt) and $(cat block.txt)"
echo "snakemake $("$python" -m snakemake --version), mem_mb and heap of the second attempt, by a command and by a" \
    "block: $retried; in a call of its own: $called"
[ "$retried" = "2000 1000 and 2000 1000" ]
[ "$called" = "2000 2000 and 2000 2000" ]
