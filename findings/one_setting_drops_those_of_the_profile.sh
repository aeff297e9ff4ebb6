#!/usr/bin/env bash
# Finding:  One --set-resources train:runtime=20 on the command line drops all set-resources of the profile: a job that
#           has four GPUs and the partition a100 by the profile runs without GPU on the default partition. In the same
#           way --default-resources, --resources and --config replace all of the profile's entries, and the workflow
#           profile all of the global profile's, for other rules and keys too. Nothing says so.
# Packages: snakemake==9.27.1
# Topic:    Snakemake and SLURM
# Source:   snakemake/profiles.py turns each mapping into one option with many values, and ConfigArgParse leaves out an
#           option of a file that the command line has. For --default-resources it is
#           https://github.com/snakemake/snakemake/issues/3429
# Guess:    mappings are merged, and a named entry overrides that entry alone (confidence 65 %).
# Hurts:    whoever repeats a call with one thing changed: more time, and no GPU; a seed, and all other settings of the
#           profile are the defaults again.
# Here:     site/requests.py writes the resources of jobs with devices into the rules, and invocation/invocation.py sets
#           the limit and the default of `measurement`; profiles/README.md says where to change defaults
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > Snakefile <<'S'
onstart:
    with open("limit.txt", "w") as file:
        print(workflow.global_resources.get("disks").value, config, file=file)

rule all:
    input: "train.txt"

rule train:
    output: "train.txt"
    run:
        asked = {name: resources.get(name) for name in ("gpu", "slurm_partition", "mem_mb", "runtime")}
        with open(output[0], "w") as file:
            print(asked, file=file)
S
mkdir profile other
cat > profile/config.yaml <<'S'
cores: 1
set-resources: {train: {gpu: 4, slurm_partition: a100}}
default-resources: {mem_mb: 64000, runtime: 600}
resources: {disks: 2}
config: {epochs: 90, rate: 0.5}
S
echo 'set-resources: {evaluate: {gpu: 1}}' > other/config.yaml

call() {
    rm -f train.txt
    "$python" -m snakemake --profile profile --quiet all "$@" 2> log.txt || { cat log.txt; exit 1; }
    paste -d ' ' train.txt limit.txt
}

echo "snakemake $("$python" -m snakemake --version), resources, limit and config of the job:"
{
    call
    call --set-resources train:runtime=20
    call --default-resources runtime=20
    call --resources tapes=1
    call --config seed=3
    call --workflow-profile other
} | tee seen.txt
[ "$(cat seen.txt)" = "\
{'gpu': 4, 'slurm_partition': 'a100', 'mem_mb': 64000, 'runtime': 600} 2 {'epochs': 90, 'rate': 0.5}
{'gpu': None, 'slurm_partition': None, 'mem_mb': 64000, 'runtime': 20} 2 {'epochs': 90, 'rate': 0.5}
{'gpu': 4, 'slurm_partition': 'a100', 'mem_mb': 1000, 'runtime': 20} 2 {'epochs': 90, 'rate': 0.5}
{'gpu': 4, 'slurm_partition': 'a100', 'mem_mb': 64000, 'runtime': 600} None {'epochs': 90, 'rate': 0.5}
{'gpu': 4, 'slurm_partition': 'a100', 'mem_mb': 64000, 'runtime': 600} 2 {'seed': 3}
{'gpu': None, 'slurm_partition': None, 'mem_mb': 64000, 'runtime': 600} 2 {'epochs': 90, 'rate': 0.5}" ]
