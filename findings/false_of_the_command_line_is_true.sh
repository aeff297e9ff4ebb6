#!/usr/bin/env bash
# Finding:  Snakemake's --config amp=false is the text "false", which is true in an if; amp=False is False. Below a key
#           all values are texts, of --config and of `config:` in a profile alike: model: {amp: false, rate: 0.5} has
#           amp "False" and rate "0.5", and layers: [1, 2] has texts. The same lines in a config file are False and
#           numbers.
# Packages: snakemake==9.27.1
# Topic:    Snakemake and SLURM
# Source:   parse_config in snakemake/cli.py tries int(), float(), exactly True and False, and then YAML's BaseLoader,
#           for which all scalars are texts. snakemake/profiles.py turns a profile's config into such arguments by
#           str().
# Guess:    both are read as YAML (confidence 90 %).
# Hurts:    whoever switches something off for one call or in a profile: mixed precision, augmentation or pretrained
#           weights stay on, and nothing says so.
# Here:     the schema refuses a text for true or false, and names the value and its place
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > Snakefile <<'S'
with open("seen.txt", "a") as file:
    on = [bool(config["amp"]), bool(config["model"]["amp"])]
    print(on, config["amp"], config["model"], config["layers"], file=file)

rule all:
    output: "done.txt"
    shell: "touch {output}"
S
mkdir profile
printf 'amp: false\nmodel: {amp: false, rate: 0.5}\nlayers: [1, 2]\n' > config.yaml
printf 'config:\n  amp: false\n  model: {amp: false, rate: 0.5}\n  layers: [1, 2]\n' > profile/config.yaml
"$python" -m snakemake --dry-run --quiet all --configfile config.yaml > log.txt
"$python" -m snakemake --dry-run --quiet all --config amp=false 'model={amp: false, rate: 0.5}' 'layers=[1, 2]' \
    > log.txt
"$python" -m snakemake --dry-run --quiet all --profile profile --cores 1 > log.txt
echo "snakemake $("$python" -m snakemake --version): whether amp and model: {amp:} are on, and the values, by a" \
    "config file, by --config and by a profile:"
cat seen.txt
[ "$(cat seen.txt)" = "[False, False] False {'amp': False, 'rate': 0.5} [1, 2]
[True, True] false {'amp': 'false', 'rate': '0.5'} ['1', '2']
[False, True] False {'amp': 'False', 'rate': '0.5'} ['1', '2']" ]
