#!/usr/bin/env bash
# Finding:  Snakemake's SLURM plugin waits without end for a job that was cancelled by scancel: sacct gives its state as
#           "CANCELLED by 1000", with the number of the user, and the plugin knows "CANCELLED" alone. Neither an error
#           nor a retry follows, nor any message.
# Packages: snakemake==9.27.1 snakemake-executor-plugin-slurm==2.8.0
# Topic:    Snakemake and SLURM
# Source:   check_active_jobs in snakemake_executor_plugin_slurm/__init__.py compares the whole state; sacct's manual
#           says that the number follows. The profile that was before the plugin had the same mistake,
#           https://github.com/Snakemake-Profiles/slurm/pull/22
# Guess:    a job that was cancelled has failed (confidence 97 %).
# Hurts:    whoever cancels a job that hangs or has the wrong partition, to have it tried again, and finds the workflow
#           idle the next day.
# Here:     invocation/job_states.py reads the first word of the state
source "$(dirname "$(realpath "$0")")/setup.sh"
mkdir bin
printf '#!/bin/sh\necho 100\n' > bin/sbatch
printf '#!/bin/sh\ncase "$*" in *JobIdRaw*) echo >> %s/asked; echo "100|$STATE";; esac\n' "$folder" > bin/sacct
printf '#!/bin/sh\necho project\n' > bin/sacctmgr
for name in squeue scontrol sinfo sshare scancel; do printf '#!/bin/sh\nexit 0\n' > "bin/$name"; done
chmod +x bin/*
cat > Snakefile <<'S'
rule train:
    output: "trained.txt"
    resources: slurm_partition="gpu", slurm_account="project", runtime=10, mem_mb=1000
    shell: "touch {output}"
S

call() {
    rm -f asked
    STATE="$1" PATH="$folder/bin:$PATH" timeout -k 1 250 "$python" -m snakemake --executor slurm --jobs 2 \
        --slurm-init-seconds-before-status-checks 1 > printed 2>&1 &
    for _ in $(seq 400); do
        sleep 0.5
        kill -0 $! 2> /dev/null || break
        [ "$(cat asked 2> /dev/null | wc -l)" -lt 3 ] || break
    done
    if kill -0 $! 2> /dev/null; then
        echo "waits after $(wc -l < asked) questions"
        # Asked to end, Snakemake would wait for the job.
        kill -KILL -- -$!
        wait $! || true
    else
        wait $! || true
        echo "ends after $(wc -l < asked), $(grep -c "SLURM status is: 'CANCELLED'" printed) message(s)"
    fi
}

cancelled=$(call CANCELLED) by_user=$(call "CANCELLED by 1000")
echo "state CANCELLED: $cancelled; state CANCELLED by 1000: $by_user"
[ "$cancelled" = "ends after 1, 1 message(s)" ]
[ "$by_user" = "waits after 3 questions" ]
