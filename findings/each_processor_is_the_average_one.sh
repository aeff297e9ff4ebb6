#!/usr/bin/env bash
# Finding:  carbontracker 2.4.7 found none of 39 processors by the names that Linux has for them, such as "AMD EPYC 7763
#           64-Core Processor" or "Intel(R) Xeon(R) Gold 6230 CPU @ 2.10GHz", though both are in its table, as AMD EPYC
#           7763 and Intel Xeon Gold 6230. Where there is no RAPL, as on virtual machines, each machine, with 4 cores or
#           192, idle or busy, takes the same 36 W, half of the mean of the table. A line in the log says that the name
#           was not found.
# Packages: numpy==2.4.6 pandas==3.1.1 carbontracker==2.4.7
# Topic:    counting work
# Source:   carbontracker/components/cpu/generic.py, find_matching_tdp: the name up to an @ has to be part of a name in
#           data/cpu_power.csv, which is without (R), CPU and the number of cores.
# Guess:    half of the design power of the processor, as its page says (confidence 85 %).
# Hurts:    comparisons of energy between machines of a cloud, and of runs with those where RAPL is read.
# Here:     measure/host/host_samples.py reads the counters of RAPL and leaves the energy out where it cannot; none is
#           estimated
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > power.py <<'P'
import logging
import sys
import warnings
from importlib.metadata import version
from unittest import mock

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
from carbontracker.components.cpu import generic

NAMES = {  # as /proc/cpuinfo has them, and as they stand in the table
    "AMD EPYC 7763 64-Core Processor": "AMD EPYC 7763",
    "AMD EPYC 7302 16-Core Processor": "AMD EPYC 7302",
    "Intel(R) Xeon(R) Gold 6230 CPU @ 2.10GHz": "Intel Xeon Gold 6230",
    "Intel(R) Xeon(R) Platinum 8280 CPU @ 2.70GHz": "Intel Xeon Platinum 8280",
    "Intel(R) Core(TM) i7-8565U CPU @ 1.80GHz": "Intel Core i7-8565U",
    "AMD Ryzen 9 5950X 16-Core Processor": "AMD Ryzen 9 5950X",
}


def power(name):
    """Return the power in watts that is taken for the processor of this name."""
    with mock.patch.object(generic.cpuinfo, "get_cpu_info", return_value={"brand_raw": name}):
        cpu = generic.GenericCPU([], False)
    cpu.init()
    return cpu.power_usage()[0]


by_linux = {round(power(name), 2) for name in NAMES}
by_table = [power(name) for name in NAMES.values()]
print(f"carbontracker {version('carbontracker')}: {len(NAMES)} processors by the names of Linux take {by_linux} W, by "
      f"those of its table {by_table} W")
sys.exit(len(by_linux) != 1 or len(set(by_table)) < 4)
P
"$python" power.py
