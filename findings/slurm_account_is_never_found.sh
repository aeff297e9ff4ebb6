#!/usr/bin/env bash
# Finding:  Without `slurm_account`, Snakemake's SLURM plugin asks sacct with the arguments `|`, `tail` and `-1`, which
#           sacct refuses, so that no account is ever found; each call begins with warnings.
# Packages: snakemake==9.27.1 snakemake-executor-plugin-slurm==2.8.0
# Topic:    Snakemake and SLURM
# Source:   get_account in snakemake_executor_plugin_slurm/accounts.py splits a pipeline by shlex and runs it without a
#           shell.
# Guess:    the account of the user's last job is taken.
# Hurts:    users of centres that require an account, who read warnings about sacct and look for the mistake in SLURM.
# Here:     invocation/executor.py does not guess: SLURM knows the default account of each user
source "$(dirname "$(realpath "$0")")/setup.sh"
mkdir bin
printf '#!/bin/sh\nprintf "%%s " "$@" > %s/asked\nexec true\n' "$folder" > bin/sacct
chmod +x bin/sacct
PATH="$folder/bin:$PATH" "$python" - <<'P'
import logging

from snakemake_executor_plugin_slurm.accounts import get_account

get_account(logging.getLogger())
P
echo "sacct is called with: $(cat asked)"
grep -q '| tail -1' asked
