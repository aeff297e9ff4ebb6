#!/usr/bin/env bash
# Finding:  A parameter that Snakemake reads from a pandas table is compared with its former value if the column has
#           fractions, and not if it has whole numbers or truth values: epochs from 10 to 90, or nesterov from False to
#           True, runs nothing again, where a changed rate does.
# Packages: snakemake==9.27.1 pandas==3.1.1 numpy==2.4.6
# Topic:    Snakemake and SLURM
# Source:   snakemake/persistence/__init__.py: _serialize_param_builtin records values of Python's types and leaves out
#           all others. NumPy's float64 is a float of Python; int64 and bool_ are no int and no bool. Paths, dates of a
#           YAML file and enumerations are left out too.
# Guess:    all parameters are compared, whatever column they are from (confidence 95 %).
# Hurts:    workflows that read their runs from a sample sheet, as the documentation recommends: results of 10 epochs
#           under the name of 90.
# Here:     params are texts, numbers of Python and sorted lists
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > Snakefile <<'S'
import pandas as pd

runs = pd.read_csv("runs.csv", index_col="name")

def get(column):
    return lambda wildcards: runs.loc[wildcards.name, column]

rule train:
    output: "{name}.txt"
    params: epochs=get("epochs"), nesterov=get("nesterov"), rate=get("rate")
    shell: "echo {params} > {output}"
S

train() {
    printf 'name,epochs,nesterov,rate\nbase,%s,%s,%s\nother,5,False,0.3\n' "$@" > runs.csv
    "$python" -m snakemake --cores 1 --quiet all -- base.txt
    cat base.txt
}

first=$(train 10 False 0.1) epochs=$(train 90 False 0.1)
nesterov=$(train 10 True 0.1) rate=$(train 90 True 0.2)
echo "snakemake $("$python" -m snakemake --version), epochs, nesterov and rate of the result: $first at first;" \
    "$epochs after setting 90 epochs; $nesterov after setting nesterov; $rate after setting both and a rate of 0.2"
[ "$first" = "10 False 0.1" ]
[ "$epochs" = "$first" ]
[ "$nesterov" = "$first" ]
[ "$rate" = "90 True 0.2" ]
