#!/usr/bin/env bash
# Finding:  pandas reads a column whose commits all look like 5e12340 as numbers, and the numbers as infinity.
# Packages: pandas==3.1.1
# Topic:    traces
# Source:   digits, an e and digits are a float in read_csv, and its exponent overflows; about 1 of 50 short hashes of seven
#           characters has that form.
# Guess:    texts stay texts, or a warning.
# Hurts:    tables of results of one commit: all rows of the table share the hash, so that nothing else keeps it a text.
# Here:     report/files.py reads columns of texts as texts
source "$(dirname "$(realpath "$0")")/setup.sh"
"$python" - <<'P'
import io
import sys

import pandas as pd

table = pd.read_csv(io.StringIO("commit,images_per_s\n5e12340,80\n5e12340,84\n"))
print("commit 5e12340 is read as", list(table.commit))
sys.exit(list(table.commit) != [float("inf")] * 2)
P
