#!/usr/bin/env bash
# Finding:  torchrun leaves the number of threads alone for one process and sets OMP_NUM_THREADS=1 for two, so that on a
#           CPU a "speed-up" compares one process that has all cores with two that have one each.
# Packages: torch==2.13.0 numpy==2.4.6
# Topic:    programs
# Source:   torch/distributed/run.py: only if nproc_per_node > 1 and the variable is unset.
# Guess:    one thread per process for any number of processes.
# Hurts:    whoever measures scaling on CPUs by torchrun; on GPUs the loader and the optimizer's host code.
# Here:     every process gets OMP_NUM_THREADS, the number of cores of its device
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > threads.py <<'P'
import os

if os.environ["RANK"] == "0":
    print("variable:", os.environ.get("OMP_NUM_THREADS"))
P
unset OMP_NUM_THREADS
for processes in 1 2; do
    "$python" -m torch.distributed.run --standalone --nproc-per-node=$processes threads.py 2>/dev/null > "$processes.txt"
done
echo "OMP_NUM_THREADS with 1 process: $(cat 1.txt); with 2: $(cat 2.txt)"
[ "$(cat 1.txt)" = "variable: None" ] && [ "$(cat 2.txt)" = "variable: 1" ]
