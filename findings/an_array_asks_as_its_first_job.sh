#!/usr/bin/env bash
# Finding:  With --slurm-array-jobs, Snakemake's SLURM plugin submits the jobs of a rule as one array, and all of them
#           get the GPUs, cores, memory and time of one of them: of runs with gpu=1, 2 and 4, each gets as many as the
#           one that happens to be the first. Nothing says so.
# Packages: snakemake==9.27.1 snakemake-executor-plugin-slurm==2.8.0
# Topic:    Snakemake and SLURM
# Source:   run_array_jobs in snakemake_executor_plugin_slurm/__init__.py takes all options of sbatch from jobs[0]; a
#           comment says that all jobs have the same requirement. {resources.gpu} of each job is its own.
# Guess:    jobs with different requests become different arrays (confidence 90 %).
# Hurts:    studies over numbers of devices, and retries with more memory: a run that is named for four GPUs has one, or
#           is killed for its memory again.
# Here:     invocation/starting.py refuses --slurm-array-jobs
source "$(dirname "$(realpath "$0")")/setup.sh"
mkdir bin
printf '#!/bin/sh\necho "$@" >> "%s/asked"\nexit 1\n' "$folder" > bin/sbatch
printf '#!/bin/sh\necho project\n' > bin/sacctmgr
for name in sacct squeue scontrol sinfo sshare scancel; do printf '#!/bin/sh\nexit 0\n' > "bin/$name"; done
chmod +x bin/*
cat > Snakefile <<'S'
rule all:
    input: "gpus1.txt", "gpus2.txt", "gpus4.txt"

rule train:
    output: "gpus{n}.txt"
    resources:
        slurm_partition="gpu", slurm_account="project", runtime=10, mem_mb=1000, gpu=lambda wildcards: int(wildcards.n)
    shell: "touch {output}"
S

ask() {
    rm -f asked
    PATH="$folder/bin:$PATH" timeout 300 "$python" -m snakemake --executor slurm --jobs 10 --keep-going "$@" \
        > printed 2>&1 || true
    grep -oE -e '--(gpus|array)=[^ ]+' asked | sort | tr '\n' ' '
}

alone=$(ask) array=$(ask --slurm-array-jobs train)
echo "without arrays: $alone"
echo "with them: $array"
[ "$alone" = "--gpus=1 --gpus=2 --gpus=4 " ]
[[ "$array" =~ ^--array=1-3\ --gpus=[124]\ $ ]]
