"""
Report the progress of a training program to howmanygpus. Copy this file beside your program; it needs nothing else.

    from report_progress import report
    report(step=0)                                # after start-up, before the first step
    report(step=10, samples=640)                  # steps done so far, and samples of all devices
    report(epoch=1, step=90, metric={"accuracy": 0.9})   # after an evaluation that began right after step 90
    report(checkpoint="begin")                    # after a report of a step, and checkpoint="end" when it is written

Report when the device has done the steps, for example after reading a loss. Further keys: loss (a loss that is not
finite ends the run as diverged), status ("diverged", "out_of_memory" or "unsupported", with reason), versions
({"torch": torch.__version__}), and once parameters and flops_per_sample, both of the whole model. Without howmanygpus
nothing is written, and on processes but the first neither.
"""

import json
import os
import time


def report(**values):
    path = os.environ.get("HOWMANYGPUS_REPORT")
    if path and os.environ.get("RANK", "0") == "0":
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps({**values, "time": time.time()}) + "\n")
