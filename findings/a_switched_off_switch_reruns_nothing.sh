#!/usr/bin/env bash
# Finding:  Snakemake compares the params of a rule as a set of values, without their names. With flip=True, crop=False
#           and mixup=True, switching mixup off runs nothing again, and neither does exchanging the values of rate and
#           decay: the old result stays. A value that no parameter had before is noticed.
# Packages: snakemake==9.27.1
# Topic:    Snakemake and SLURM
# Source:   snakemake/persistence/__init__.py: _params records a sorted list of values, and params_changed takes the
#           difference of two sets of them.
# Guess:    each parameter is compared with its own former value (confidence 97 %).
# Hurts:    studies that switch one option of several on or off in a config file: the table shows the former setting's
#           result under the new name, and Snakemake says that nothing is to be done.
# Here:     params are hashes, JSON and names, of which a rule has no two that can take each other's values
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > Snakefile <<'S'
rule train:
    output: "trained.txt"
    params:
        flip=config["flip"], crop=config["crop"], mixup=config["mixup"], rate=config["rate"], decay=config["decay"]
    shell: "echo {params} > {output}"
S

train() {
    printf 'flip: true\ncrop: false\nmixup: %s\nrate: %s\ndecay: %s\n' "$@" > config.yaml
    "$python" -m snakemake --cores 1 --configfile config.yaml --quiet all
    cat trained.txt
}

first=$(train true 0.1 0.01) off=$(train false 0.1 0.01)
exchanged=$(train true 0.01 0.1) other=$(train false 0.1 0.02)
echo "snakemake $("$python" -m snakemake --version), flip, crop, mixup, rate and decay of the result: $first at" \
    "first, $off after switching mixup off, $exchanged after exchanging rate and decay, $other with a decay of 0.02"
[ "$first" = "True False True 0.1 0.01" ]
[ "$off" = "$first" ]
[ "$exchanged" = "$first" ]
[ "$other" = "True False False 0.1 0.02" ]
