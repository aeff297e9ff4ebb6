#!/usr/bin/env bash
# Finding:  Of an array of SLURM, Snakemake's plugin takes all jobs for completed when one of them is: the one that has
#           the number of the array in the database. The next rule starts and reads files that the others are still
#           writing, and the call ends with success.
# Packages: snakemake==9.27.1 snakemake-executor-plugin-slurm==2.8.0
# Topic:    Snakemake and SLURM
# Source:   query_job_status_sacct in snakemake_executor_plugin_slurm/job_status_query.py asks for JobIdRaw, in which
#           each job of an array has a number of its own (101, 102, and 100 for the last); check_active_jobs looks for
#           100_1, which is not there, and by _status_lookup_ids for 100. squeue, which the plugin asks if it is told
#           to, writes 100_1.
# Guess:    the state of each job is its own (confidence 95 %).
# Hurts:    whoever submits jobs of different length as an array: tables are made of logs that are half written, and
#           jobs that are killed for their time or memory count as completed with the files that they had begun.
# Here:     invocation/starting.py refuses --slurm-array-jobs
source "$(dirname "$(realpath "$0")")/setup.sh"
mkdir bin
# An array of three jobs that write for a while. The third one ends first; the other two go on until they may end.
cat > bin/sbatch <<S
#!/bin/bash
cd $folder
for n in 1 2 3; do echo half > \$n.txt; done
( sleep 2; echo whole >> 3.txt; touch third; for _ in \$(seq "\$LATER"); do [ -e read.txt ] || sleep 0.5; done
  for n in 1 2; do echo whole >> \$n.txt; done; touch all ) > /dev/null 2>&1 < /dev/null &
echo 100
S
cat > bin/sacct <<S
#!/bin/bash
state() { [ -e $folder/\$1 ] && echo COMPLETED || echo RUNNING; }
echo "101|\$(state all)"
echo "102|\$(state all)"
echo "100|\$(state third)"
S
sed 's/"101|/"100_1|/; s/"102|/"100_2|/; s/"100|/"100_3|/' bin/sacct > bin/squeue
printf '#!/bin/sh\necho project\n' > bin/sacctmgr
printf '#!/bin/sh\necho "MinJobAge               = 300 sec"\n' > bin/scontrol
for name in sinfo sshare scancel; do printf '#!/bin/sh\nexit 0\n' > "bin/$name"; done
chmod +x bin/*
cat > Snakefile <<'S'
rule read:
    input: "1.txt", "2.txt", "3.txt"
    output: "read.txt"
    localrule: True
    shell: "cat {input} > {output}"

rule train:
    output: "{n}.txt"
    resources: slurm_partition="gpu", slurm_account="project", runtime=10, mem_mb=1000
    shell: "touch {output}"
S

call() {
    rm -f ./*.txt third all
    LATER=$2 PATH="$folder/bin:$PATH" timeout -k 1 250 "$python" -m snakemake --executor slurm --jobs 10 \
        --slurm-array-jobs train --slurm-init-seconds-before-status-checks 1 --slurm-status-command "$1" \
        > printed 2>&1 && tr '\n' ' ' < read.txt
}

sacct=$(call sacct 400) squeue=$(call squeue 4)
echo "read from the three jobs if the plugin asks sacct: $sacct"
echo "and if it asks squeue: $squeue"
[ "$sacct" = "half half half whole " ]
[ "$squeue" = "half whole half whole half whole " ]
