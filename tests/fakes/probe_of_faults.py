"""
Takes the place of howmanygpus.train.parity.probe: one process does the task with each of PLANTED_FAULTS in turn.

A framework takes longer to start than to do the task. The gate's own probe, renamed, does the task.
"""

import os
import sys
from pathlib import Path

from howmanygpus.train.parity import renamed_probe


def main() -> None:
    place = sys.argv.index("--folder") + 1
    folder, cores = Path(sys.argv[place]), os.sched_getaffinity(0)
    for fault in os.environ["PLANTED_FAULTS"].split(","):
        os.environ["PLANTED_FAULT"] = fault
        os.sched_setaffinity(0, cores)  # as at the start of a process
        sys.argv[place] = str(folder / fault)
        renamed_probe.main()


if __name__ == "__main__":
    main()
