#!/usr/bin/env bash
# Finding:  When one step of a group job fails on a cluster, Snakemake deletes the outputs of all steps of the group,
#           also of those that had finished: of training and evaluation in one group, an evaluation that fails deletes
#           the trained network, and the next call trains again. Without the group, or on one machine, it is kept.
# Packages: snakemake==9.27.1 snakemake-executor-plugin-slurm==2.8.0
# Topic:    Snakemake and SLURM
# Source:   GroupJob.postprocess(error=True) in snakemake/jobs.py calls that of each of its jobs, which removes its
#           outputs. https://github.com/snakemake/snakemake-executor-plugin-slurm/issues/110
# Guess:    steps that were finished count as such, and the next call goes on behind them (confidence 75 %).
# Hurts:    whoever joins many or long steps in a group to have fewer jobs: one failure, or the time limit in the last
#           step, loses the work of all; with retries, each time.
# Here:     no rule has a group
source "$(dirname "$(realpath "$0")")/setup.sh"
mkdir bin
cat > bin/sbatch <<S
#!/bin/bash
for argument; do [[ "\$argument" == --wrap=* ]] && wrapped=\${argument#--wrap=}; done
( bash -c "\$wrapped" > $folder/job.log 2>&1; touch $folder/ended ) > /dev/null 2>&1 < /dev/null &
echo 100
S
printf '#!/bin/sh\nif [ -e %s/ended ]; then echo "100|FAILED"; else echo "100|RUNNING"; fi\n' "$folder" > bin/sacct
printf '#!/bin/bash\nwhile [[ -z "$1" || "$1" == -* ]]; do shift; done\nexec "$@"\n' > bin/srun
printf '#!/bin/sh\necho project\n' > bin/sacctmgr
for name in squeue scontrol sinfo sshare scancel; do printf '#!/bin/sh\nexit 0\n' > "bin/$name"; done
chmod +x bin/*
cat > Snakefile <<'S'
rule evaluate:
    input: "trained.txt"
    output: "evaluated.txt"
    group: "both"
    resources: slurm_partition="gpu", slurm_account="project", runtime=10, mem_mb=1000
    shell: "test -e ready && cp {input} {output}"

rule train:
    output: "trained.txt"
    group: "both"
    resources: slurm_partition="gpu", slurm_account="project", runtime=10, mem_mb=1000
    shell: "echo trained > {output}"
S

call() {
    rm -f ./*.txt ended
    PATH="$folder/bin:$PATH" timeout -k 1 280 "$python" -m snakemake "$@" > printed 2>&1 || true
    [ -e trained.txt ] && echo trained.txt kept || echo trained.txt missing
}

group=$(call --executor slurm --jobs 2 --slurm-init-seconds-before-status-checks 1)
machine=$(call --cores 1)
echo "snakemake $("$python" -m snakemake --version), after a failed evaluation: $group by a group on a cluster," \
    "$machine on one machine"
[ "$group, $machine" = "trained.txt missing, trained.txt kept" ]
grep -q "rule evaluate" job.log
