#!/usr/bin/env bash
# Finding:  Where codecarbon cannot read the energy of the CPU, it estimates the power from the load: with half of the
#           cores busy it is 50 % of the CPU's design power in 3.0.2 and 21 % in 3.3.2. With a quarter it is 25 % and
#           11 %: the same work takes 2.4 times as much energy on all cores as on half of them in twice the time. With
#           tracking_mode="process" it is 50 % in both, so that in 3.3.2 one process takes more than its machine.
# Packages: numpy==2.4.6 pandas==3.1.1 codecarbon==3.3.2
# Topic:    silent changes in new releases
# Source:   codecarbon/external/hardware.py, CPU._get_power_from_cpu_load: power = TDP * max(load, 0.1) in 3.0.2; in
#           3.3.2 TDP * (0.1 + 0.9 * load**3) for a machine and TDP * load for a process. No message says which, and the
#           file of emissions has the version alone.
# Guess:    half of the load is half of the power, or more, and a process takes no more than its machine (confidence 85
#           %).
# Hurts:    energy and emissions of runs on other numbers of cores, or by other versions, on nodes where RAPL is closed
#           to users, as on most clusters and all virtual machines.
# Here:     measure/host/host_samples.py reads the counters of RAPL and leaves the energy out where it cannot; none is
#           estimated
source "$(dirname "$(realpath "$0")")/setup.sh"
"$python" -m pip install --quiet --disable-pip-version-check --no-deps --target old codecarbon==3.0.2
cat > load.py <<'P'
import sys
import warnings
from unittest import mock

if sys.argv[1] != "new":
    sys.path.insert(0, sys.argv[1])
warnings.filterwarnings("ignore")
import codecarbon
import psutil
from codecarbon.external import hardware

SECONDS = 1000.0


def share(mode, load):
    """Return the share of the design power that is estimated if the process keeps this share of the cores busy."""
    cpu = hardware.CPU.from_utils(".", "cpu_load", "a CPU", 200, tracking_mode=mode)
    of_process = 100 * load * cpu._cpu_count
    with (mock.patch.object(psutil, "cpu_percent", return_value=100 * load),
          mock.patch.object(psutil.Process, "cpu_percent", return_value=of_process)):
        if sys.argv[1] == "new":
            cpu._cpu_load_meter = mock.Mock(percent=lambda: 100 * load)
            times = iter([{1: 0.0}, {1: load * cpu._cpu_count * SECONDS}])
            cpu._get_process_cpu_times = lambda: next(times)
            with mock.patch.object(hardware.time, "time", side_effect=[0.0, SECONDS]):
                if mode == "process":
                    cpu.start()
                return cpu._get_power_from_cpu_load().W / 200
        return cpu._get_power_from_cpu_load().W / 200


shares = {mode: [round(share(mode, load), 2) for load in (1, 0.5, 0.25)] for mode in ("machine", "process")}
print(f"codecarbon {codecarbon.__version__}: of all, half and a quarter of the cores, the share of the design power is "
      f"{shares['machine']} of the machine and {shares['process']} of the process")
linear = [1, 0.5, 0.25]
sys.exit(shares != {"machine": linear if sys.argv[1] == "old" else [1, 0.21, 0.11], "process": linear})
P
status=0
for version in old new; do
    "$python" load.py "$version" || status=1
done
exit "$status"
