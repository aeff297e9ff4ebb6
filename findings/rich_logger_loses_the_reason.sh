#!/usr/bin/env bash
# Finding:  With --logger rich, a job that sbatch refuses fails without the reason: the message of sbatch, which the
#           default logger shows, is nowhere.
# Packages: snakemake==9.27.1 snakemake-executor-plugin-slurm==2.8.0 snakemake-logger-plugin-rich==0.5.1
# Topic:    Snakemake and SLURM
# Source:   run_job of the SLURM plugin passes sbatch's message to report_job_error alone, and handle_job_error of the
#           rich logger prints the job and its log files, without the message of the event.
# Guess:    the message is in the event of the failed job, so that every logger shows it.
# Hurts:    users whose partition, account or time limit is refused: they see that a job failed, and not why.
# Here:     invocation/executor.py logs what sbatch says, and invocation/failing.py names the reason at the end
source "$(dirname "$(realpath "$0")")/setup.sh"
mkdir bin
printf '#!/bin/sh\necho "sbatch: error: invalid partition specified: unheard_of" >&2\nexit 1\n' > bin/sbatch
for name in sacct squeue scontrol sinfo sacctmgr scancel; do printf '#!/bin/sh\nexit 0\n' > "bin/$name"; done
chmod +x bin/*
cat > Snakefile <<'S'
rule refused:
    output: "done.txt"
    log: "refused.log"
    resources: slurm_partition="unheard_of", runtime=10
    shell: "touch {output} 2> {log}"
S
for logger in "" "--logger rich"; do
    # shellcheck disable=SC2086
    PATH="$folder/bin:$PATH" timeout 300 "$python" -m snakemake --executor slurm --jobs 1 --show-failed-logs $logger \
        > "printed$(echo "$logger" | tr -d ' -')" 2>&1 || true
done
plain=$(grep -c "invalid partition specified" printed || true)
rich=$(grep -c "invalid partition specified" printedloggerrich || true)
echo "lines with the reason: $plain by default, $rich with --logger rich"
[ "$plain" -gt 0 ] && [ "$rich" = 0 ]
