#!/usr/bin/env bash
# Finding:  numcodecs' Blosc and numexpr count the cores of the node and not those that a job may use: bound to one core,
#           both start more threads, where blosc2 and polars start one. Needs two cores.
# Packages: numcodecs==0.16.6 numexpr==2.14.2 blosc2==4.14.1 polars==2.1.0 numpy==2.4.6
# Topic:    loaders
# Source:   both ask multiprocessing.cpu_count(), which does not know about affinity.
# Guess:    all of them respect the affinity mask.
# Hurts:    several processes of a job on a shared node: each starts threads for all cores, and they fight for its few.
# Here:     the arrays are plain memory maps; each process is bound to its device's cores, which bounds the harm
source "$(dirname "$(realpath "$0")")/setup.sh"
taskset -c "$("$python" -c 'import os; print(min(os.sched_getaffinity(0)))')" "$python" - <<'P'
import sys

import blosc2
import numexpr
import polars
from numcodecs import blosc

threads = {"numcodecs": blosc.get_nthreads(), "numexpr": numexpr.nthreads}
fair = {"blosc2": blosc2.nthreads, "polars": polars.thread_pool_size()}
print("threads of a process that may use one core:", threads | fair)
sys.exit(not (min(threads.values()) > 1 and set(fair.values()) == {1}))
P
