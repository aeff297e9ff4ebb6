#!/usr/bin/env bash
# Finding:  Snakemake's cache takes the inputs of a rule as a set: a job that trains on a and tests on b, and one that
#           trains on b and tests on a, have one entry, so that both folds of a cross-validation get the result of one. It
#           does not read the code of a run: block either, so that an edited one gets the result of the old one.
# Packages: snakemake==9.27.1
# Topic:    Snakemake and SLURM
# Source:   snakemake/caching/hash.py sorts the hashes of the inputs, without their names, and hashes the texts of shell,
#           script, notebook and wrapper alone. The documentation asks to give wildcards and parameters by `params`; the two
#           folds here differ in their inputs alone.
# Guess:    inputs count with their names, as parameters do, and all code counts.
# Hurts:    whoever shares expensive steps between workflows by `cache: True`: scores of another fold, results of old code.
# Here:     no rule has `cache:`; results are taken from another clone by `make adopt`, by the whole record of each run
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > Snakefile <<'S'
FOLDS = {"on_a": ("a.csv", "b.csv"), "on_b": ("b.csv", "a.csv")}

rule all:
    input: "on_a.txt", "on_b.txt"

rule score:
    input:
        train=lambda wildcards: FOLDS[wildcards.fold][0],
        test=lambda wildcards: FOLDS[wildcards.fold][1],
    output: "{fold}.txt"
    wildcard_constraints: fold="on_."
    cache: WITH_CACHE
    shell: "echo trained on {input.train}, tested on {input.test} > {output}"

rule block:
    output: "block.txt"
    cache: WITH_CACHE
    run:
        with open(output[0], "w") as file:
            file.write("version 1")
S
echo 1 > a.csv
echo 2 > b.csv
export SNAKEMAKE_OUTPUT_CACHE=$folder/kept
mkdir kept

call() {
    sed "s/WITH_CACHE/$1/; s/version 1/version $2/" Snakefile > current.smk
    rm -rf .snakemake on_a.txt on_b.txt block.txt
    "$python" -m snakemake --snakefile current.smk --cores 1 --cache --quiet all -- all block.txt > log.txt 2>&1 || { cat log.txt; exit 1; }
    echo "fold a: $(cat on_a.txt); fold b: $(cat on_b.txt); block of version $2: $(cat block.txt)"
}

off=$(call False 1) first=$(call True 1) second=$(call True 2)
echo "snakemake $("$python" -m snakemake --version)"
printf '%s\n' "without the cache: $off" "with it: $first" "with it, after the edit: $second"
on_a="trained on a.csv, tested on b.csv" on_b="trained on b.csv, tested on a.csv"
[ "$off" = "fold a: $on_a; fold b: $on_b; block of version 1: version 1" ]
for seen in "$on_a" "$on_b"; do
    [ "$first" = "fold a: $seen; fold b: $seen; block of version 1: version 1" ] && found=$seen
done
[ "$second" = "fold a: $found; fold b: $found; block of version 2: version 1" ]
