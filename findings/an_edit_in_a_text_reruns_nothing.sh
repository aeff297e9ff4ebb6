#!/usr/bin/env bash
# Finding:  Snakemake does not run a rule again after an edit inside a string of several lines in its run: block; an edit
#           of the line after it is seen.
# Packages: snakemake==9.27.1
# Topic:    Snakemake and SLURM
# Source:   the recorded code of a run: block leaves out strings that stand in triple quotes, as docstrings.
# Guess:    any change of the block's code runs the job again.
# Hurts:    queries, configurations and templates that stand in a rule: the old result stays.
# Here:     no rule has a run: block; code is hashed by its syntax tree
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > Snakefile <<'S'
rule write:
    output: "written.txt"
    run:
        text = """
        one
        """
        open(output[0], "w").write(text)
S
"$python" -m snakemake --cores 1 --quiet all
sed -i 's/one/two/' Snakefile
"$python" -m snakemake --cores 1 --quiet all
words=$(tr -d ' \n' < written.txt)
sed -i 's/"w"/"wt"/' Snakefile
"$python" -m snakemake --cores 1 --quiet all
echo "written after the edit of the text: $words; after that of a line of code: $(tr -d ' \n' < written.txt)"
[ "$words $(tr -d ' \n' < written.txt)" = "one two" ]
