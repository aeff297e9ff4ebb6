#!/usr/bin/env bash
# Finding:  glob_wildcards() in the folder that a checkpoint made finds a file that Snakemake itself put there,
#           .snakemake_timestamp, and starts a job for it as for a sample, unless the pattern has an ending or a
#           constraint.
# Packages: snakemake==9.27.1
# Topic:    Snakemake and SLURM
# Source:   Snakemake marks the time of a directory() output by a file in it; glob_wildcards walks over all names.
# Guess:    hidden files, or at least Snakemake's own, are left out.
# Hurts:    samples that are folders or names without ending: one too many is analysed and counted.
# Here:     no folder is searched for wildcards; the plan lists the runs
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > Snakefile <<'S'
def list_counted(wildcards):
    folder = checkpoints.split.get().output[0]
    return expand("counted/{sample}", sample=glob_wildcards(f"{folder}/{{sample}}").sample)

rule all:
    input: list_counted

checkpoint split:
    output: directory("samples")
    shell: "mkdir {output}; touch {output}/a {output}/b"

rule count:
    input: "samples/{sample}"
    output: "counted/{sample}"
    shell: "touch {output}"
S
"$python" -m snakemake --cores 1 --quiet all
names=$(LC_ALL=C ls -A counted | tr '\n' ' ')
echo "samples that were counted of a and b: $names"
[ "$names" = ".snakemake_timestamp a b " ]
