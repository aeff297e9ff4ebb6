#!/usr/bin/env bash
# Finding:  PyYAML 6.0.4 forgets an override when the mapping that has it is merged, if the key has one letter. In
#           x: {p: 1}, y: {<<: x, p: 2}, z: {<<: y}, the p of z is 1 in 6.0.4 and 2 in 6.0.3. A key of two letters is 2
#           in both. The loader in C does the same.
# Packages: pip==26.3
# Topic:    Snakemake and SLURM
# Source:   PyYAML 6.0.3 and 6.0.4, CPython 3.11. 6.0.4 leaves out merged keys that it has seen by the identity of their
#           strings, and CPython has one object for each string of one letter.
# Guess:    a patch release reads the same mappings, and the length of a key says nothing.
# Hurts:    whoever derives an entry from another that overrides a third, and names parameters as in a formula.
# Here:     envs/measured.txt and requirements.txt leave 6.0.4 out; a test of config files has such an entry
source "$(dirname "$(realpath "$0")")/setup.sh"
for version in 6.0.3 6.0.4; do
    "$python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$version" "PyYAML==$version"
done
cat > merge.py <<'P'
import sys

sys.path.insert(0, sys.argv[1])
import yaml

text = """
x: &x {p: 1, lr: 1}
y: &y {<<: *x, p: 2, lr: 2}
z: {<<: *y}
"""
for loader in (yaml.SafeLoader, yaml.CSafeLoader):
    read = yaml.load(text, loader)
    print(yaml.__version__, loader.__name__, *(f"{name}: {read[name]}" for name in ("y", "z")))
P
"$python" merge.py 6.0.3 | tee old.txt
"$python" merge.py 6.0.4 | tee new.txt
[ "$(grep -c "z: {'p': 2, 'lr': 2}" old.txt)" = 2 ]
[ "$(grep -c "y: {'p': 2, 'lr': 2} z: {'p': 1, 'lr': 2}" new.txt)" = 2 ]
