#!/usr/bin/env bash
# Finding:  A Ctrl-C while Snakemake writes a message has no effect: the call goes on and ends with 0. A Ctrl-C while it
#           evaluates a resource is reported as an error of that rule.
# Packages: snakemake==9.27.1
# Topic:    Snakemake and SLURM
# Source:   ColorizingTextHandler.emit in snakemake/logging.py passes over KeyboardInterrupt; Rule.expand_resources in
#           snakemake/rules.py catches BaseException.
# Guess:    KeyboardInterrupt is no Exception, so that it ends the call wherever it is raised.
# Hurts:    users with many jobs, whose calls spend much of their time on messages: Ctrl-C works at the third try.
# Here:     invocation/interrupting.py notes signals, and the scheduler looks for them while it waits
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > message.smk <<'S'
import os, signal
from snakemake.logging import logger

onstart:
    # The moment at which a user presses Ctrl-C: while a message is flushed.
    logger.handlers[0].flush = lambda: os.kill(os.getpid(), signal.SIGINT)
    logger.info("a message")
    del logger.handlers[0].flush

rule all:
    output: "message.txt"
    shell: "touch {output}"
S
cat > resource.smk <<'S'
import os, signal

def press_ctrl_c(wildcards):
    if os.path.exists("first.txt"):
        os.kill(os.getpid(), signal.SIGINT)
    return 1

rule all:
    input: "resource.txt"

rule first:
    output: "first.txt"
    shell: "touch {output}"

rule second:
    input: "first.txt"
    output: "resource.txt"
    resources: mem_mb=press_ctrl_c
    shell: "touch {output}"
S
status=0
"$python" -m snakemake --snakefile message.smk --cores 1 > message.log 2>&1 || status=$?
"$python" -m snakemake --snakefile resource.smk --cores 1 > resource.log 2>&1 || true
blamed=$(grep -o "InputFunctionException in rule second" resource.log | head -n 1)
echo "Ctrl-C in a message: exit status $status, output $(ls message.txt 2>/dev/null || echo missing); in a resource: ${blamed:-ended}"
[ "$status" = 0 ] && [ -e message.txt ] && [ -n "$blamed" ]
