#!/usr/bin/env bash
# Finding:  A group of jobs asks SLURM for the sum of each number that its jobs request, also of those that are
#           multiplied with each other: four jobs of threads=2, tasks=1, nodes=1 and mem_mb_per_cpu=4000, together 8
#           cores and 32 GB, ask for four tasks of 8 cores on four nodes, with 16,000 MB for each core, which are 32
#           cores and 512 GB. The group uses 8 cores of one node. With mem_mb and without tasks and nodes it asks for 8
#           cores and 32 GB.
# Packages: snakemake==9.27.1 snakemake-executor-plugin-slurm==2.8.0
# Topic:    Snakemake and SLURM
# Source:   GroupResources.basic_layered in snakemake/resources.py adds up all integers but runtime over jobs that can
#           run beside each other; get_submit_command of the plugin passes each of the sums on.
# Guess:    numbers for each core or task, and the number of nodes, stay as they are (confidence 80 %).
# Hurts:    whoever joins short jobs in groups, with a profile that gives memory by core: the group waits for a place
#           that is sixteen times as large, and is billed for it, or no node has it.
# Here:     no rule has a group
source "$(dirname "$(realpath "$0")")/setup.sh"
mkdir bin
printf '#!/bin/sh\necho "$@" >> "%s/asked"\nexit 1\n' "$folder" > bin/sbatch
printf '#!/bin/sh\necho project\n' > bin/sacctmgr
for name in sacct squeue scontrol sinfo sshare scancel; do printf '#!/bin/sh\nexit 0\n' > "bin/$name"; done
chmod +x bin/*
cat > Snakefile <<'S'
rule all:
    input: "1.txt", "2.txt", "3.txt", "4.txt"

rule convert:
    output: "{n}.txt"
    threads: 2
    group: "converted"
    resources: slurm_partition="cpu", slurm_account="project", runtime=10, REQUEST
    shell: "touch {output}"
S

ask() {
    sed "s/REQUEST/$1/" Snakefile > current.smk
    rm -f asked
    PATH="$folder/bin:$PATH" timeout -k 1 280 "$python" -m snakemake --snakefile current.smk --executor slurm --jobs 4 \
        --group-components converted=4 > printed 2>&1 || true
    grep -oE -e '--(ntasks|nodes|cpus-per-task|mem|mem-per-cpu)[= ][0-9]+' asked | sort | tr '\n' ' '
}

by_core=$(ask "tasks=1, nodes=1, mem_mb_per_cpu=4000") whole=$(ask "mem_mb=8000")
echo "tasks=1, nodes=1, mem_mb_per_cpu=4000: $by_core"
echo "mem_mb=8000: $whole"
[ "$by_core" = "--cpus-per-task=8 --mem-per-cpu 16000 --nodes=4 --ntasks=4 " ]
[ "$whole" = "--cpus-per-task=8 --mem 32000 --ntasks=1 " ]
