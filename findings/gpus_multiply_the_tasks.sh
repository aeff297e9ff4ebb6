#!/usr/bin/env bash
# Finding:  As soon as a rule requests GPUs, Snakemake's SLURM plugin counts its `tasks` for each GPU: gpu=4, tasks=4,
#           threads=8, meant as one process for each GPU, asks for 4 tasks of 8 cores on each of 4 GPUs, which are 128
#           cores. Without GPUs the same rule asks for 4 tasks.
# Packages: snakemake==9.27.1 snakemake-executor-plugin-slurm==2.8.0
# Topic:    Snakemake and SLURM
# Source:   get_submit_command in snakemake_executor_plugin_slurm/submit_string.py takes `tasks` for --ntasks-per-gpu if
#           tasks_per_gpu is not given; the table of resources in its docs/further.md says --ntasks.
# Guess:    --ntasks=4: the documented meaning, whatever else the rule requests.
# Hurts:    training with a process for each GPU: four times the cores are requested, held and billed, or no node has them.
# Here:     site/requests.py asks for --ntasks-per-node where a job requests GPUs, and leaves `tasks` out
source "$(dirname "$(realpath "$0")")/setup.sh"
mkdir bin
printf '#!/bin/sh\necho "$@" >> "%s/asked"\nexit 1\n' "$folder" > bin/sbatch
printf '#!/bin/sh\necho project\n' > bin/sacctmgr
for name in sacct squeue scontrol sinfo sshare scancel; do printf '#!/bin/sh\nexit 0\n' > "bin/$name"; done
chmod +x bin/*
cat > Snakefile <<'S'
rule train:
    output: "trained.txt"
    threads: 8
    resources: slurm_partition="gpu", slurm_account="project", runtime=10, tasks=4, GPUS
    shell: "touch {output}"
S

ask() {
    sed "s/, GPUS/$1/" Snakefile > current.smk
    rm -f asked
    PATH="$folder/bin:$PATH" timeout 300 "$python" -m snakemake --snakefile current.smk --executor slurm --jobs 1 \
        > printed 2>&1 || true
    grep -oE -e '--(ntasks|ntasks-per-gpu|cpus-per-task|gpus|gres)=[^ ]+' asked | sort | tr '\n' ' '
}

echo "snakemake-executor-plugin-slurm $("$python" -m pip list 2> pip.log | awk '$1 == "snakemake-executor-plugin-slurm" {print $2}')"
none=$(ask "") gpus=$(ask ", gpu=4") gres=$(ask ", gres='gpu:4'")
printf '%s\n' "no GPU: $none" "gpu=4: $gpus" "gres='gpu:4': $gres"
[ "$none" = "--cpus-per-task=8 --ntasks=4 " ]
[ "$gpus" = "--cpus-per-task=8 --gpus=4 --ntasks-per-gpu=4 " ]
[ "$gres" = "--cpus-per-task=8 --gres=gpu:4 --ntasks-per-gpu=4 " ]
