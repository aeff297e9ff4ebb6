#!/usr/bin/env bash
# Finding:  Snakemake reads the same value in two ways: rate: 1e-3 in a config file is a text, --config rate=1e-3 a
#           number; a commit 5e12340 is a text in the file and infinity from the command line, a version 1_000 is 1000
#           in both.
# Packages: snakemake==9.27.1
# Topic:    Snakemake and SLURM
# Source:   files go through YAML 1.1, which wants a point in 1.0e-3; --config tries int() and float() of Python first.
# Guess:    --config reads its values as YAML, as the file does.
# Hurts:    moving a value from the file to the command line or back: a text is compared with a number, a name becomes
#           inf.
# Here:     the schema refuses a text for a number, and names the value and its place
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > Snakefile <<'S'
with open("seen.txt", "a") as file:
    print([config[key] for key in ("rate", "commit", "version")], file=file)

rule all:
    output: "done.txt"
    shell: "touch {output}"
S
printf 'rate: 1e-3\ncommit: 5e12340\nversion: 1_000\n' > config.yaml
"$python" -m snakemake --dry-run --quiet all --configfile config.yaml
"$python" -m snakemake --dry-run --quiet all --config rate=1e-3 commit=5e12340 version=1_000
echo "read from the file and from --config: $(tr '\n' ' ' < seen.txt)"
[ "$(cat seen.txt)" = "['1e-3', '5e12340', 1000]
[0.001, inf, 1000]" ]
