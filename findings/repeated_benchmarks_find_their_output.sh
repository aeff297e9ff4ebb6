#!/usr/bin/env bash
# Finding:  With benchmark: repeat(FILE, 3), Snakemake removes the outputs before the first repetition alone: the second
#           and third find what the one before has left.
# Packages: snakemake==9.27.1
# Topic:    Snakemake and SLURM
# Source:   snakemake/executors/local.py runs the job's shell in a loop; outputs are removed when the job begins.
# Guess:    each repetition starts as the first one does.
# Hurts:    programs that resume, append or skip what exists: repeats two and three measure something else.
# Here:     each repeat is a run of its own with a folder of its own
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > Snakefile <<'S'
rule append:
    output: "lines.txt"
    benchmark: repeat("lines.tsv", 3)
    shell: "echo one >> {output}"
S
touch lines.txt
"$python" -m snakemake --cores 1 --quiet all --forceall
echo "lines in the output of three repetitions that append one: $(wc -l < lines.txt)"
[ "$(wc -l < lines.txt)" = 3 ]
