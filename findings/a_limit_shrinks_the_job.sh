#!/usr/bin/env bash
# Finding:  A job that asks for more of a resource than --resources allows is neither refused nor held back: Snakemake
#           lowers the job's own request to the limit and runs it. A rule with gpu=8 under --resources gpu=4 runs with
#           {resources.gpu} = 4, and ends with success.
# Packages: snakemake==9.27.1
# Topic:    Snakemake and SLURM
# Source:   snakemake/rules.py evaluates resources with constraints=workflow.global_resources, and Resource.constrain
#           takes the minimum. That threads are scaled down is printed; nothing is said of other resources.
# Guess:    an error, since the job can never fit.
# Hurts:    measurements whose number of devices or amount of memory is taken from {resources}: the file that is named
#           for eight devices was made with four. A limit that is meant for all jobs together limits each.
# Here:     invocation/starting.py refuses a limit that is less than what a job of a cluster requests
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > Snakefile <<'S'
rule measure:
    output: "{n}_devices.txt"
    resources:
        gpu=lambda wildcards: int(wildcards.n),
        mem_mb=64000,
    shell: "echo gpu={resources.gpu} mem_mb={resources.mem_mb} > {output}"
S
"$python" -m snakemake --cores 1 --resources gpu=4 mem_mb=16000 -- 8_devices.txt > log.txt 2>&1
said=$(grep -ciE 'exceed|scaled down|constrain|limit' <(grep -v 'Rules claiming more threads' log.txt)) || true
echo "snakemake $("$python" -m snakemake --version): 8_devices.txt has: $(cat 8_devices.txt); lines that say so: $said"
[ "$(cat 8_devices.txt)" = "gpu=4 mem_mb=16000" ] && [ "$said" = 0 ]
