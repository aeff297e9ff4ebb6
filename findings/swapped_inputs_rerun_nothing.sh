#!/usr/bin/env bash
# Finding:  Snakemake does not run a job again when its inputs change places: a rule with train=a.csv and test=b.csv
#           keeps its result after the two are exchanged. Another file in place of one of them is noticed.
# Packages: snakemake==9.27.1
# Topic:    Snakemake and SLURM
# Source:   snakemake/persistence/__init__.py: _input records the sorted paths, without names or order. The trigger
#           `code` sees the shell command as it stands in the rule, with {input.train}.
# Guess:    the trigger `input`, or the changed command, runs the job again (confidence 90 %).
# Hurts:    whoever corrects a mistake such as exchanged training and test data, control and treatment, or teacher and
#           student: the wrong result stays.
# Here:     no setting exchanges two inputs of a rule
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > Snakefile <<'S'
rule score:
    input: train=config["train"], test=config["test"]
    output: "score.txt"
    shell: "echo trained on {input.train}, tested on {input.test} > {output}"
S
for name in a b c; do echo "$name" > "$name.csv"; done

score() {
    "$python" -m snakemake --cores 1 --config "train=$1" "test=$2" --quiet all
    cat score.txt
}

first=$(score a.csv b.csv) exchanged=$(score b.csv a.csv) other=$(score b.csv c.csv)
echo "snakemake $("$python" -m snakemake --version): at first: $first; after exchanging the two: $exchanged;" \
    "with a third file: $other"
[ "$first" = "trained on a.csv, tested on b.csv" ]
[ "$exchanged" = "$first" ]
[ "$other" = "trained on b.csv, tested on c.csv" ]
