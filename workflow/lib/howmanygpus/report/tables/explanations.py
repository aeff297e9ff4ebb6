"""
Why each curve bends: the loss of every configuration against the baseline of its curve, by cause, and one sentence.

`loss_frac` is 1 - scaling efficiency. The shares of the causes are differences to control runs at both ends, see
report.shares; they need not add up to the loss, and `unexplained_frac` is the rest. Without control runs with resident
input, the share of input is that of the waits for batches (`input_from`). `imbalance_frac` is the time that the slowest
process takes beyond the faster half of the processes, when none waits for another. `batch_frac` is known in strong
scaling if the baseline's devices have also run with the smaller batch. Evaluation and start-up are in no rate; their
parts of the wall time are beside it. `causes` names those that the repeats tell from zero, the largest first.
"""

import numpy as np
import pandas as pd

from howmanygpus.report.explaining import explain
from howmanygpus.report.outcomes import has_failed
from howmanygpus.report.published import is_fair
from howmanygpus.report.rows import RESIDENT_INPUT, NO_EVALUATION, NO_EXCHANGE, name_series
from howmanygpus.report.shares import BASE, END, LOSS, UNEXPLAINED, Share, compute_shares
from howmanygpus.report.tables import scaling as scaling_table
from howmanygpus.report.tables.scaling import is_baseline

READS = ("runs", "scaling", "run_phases", "ceilings")
IS_MERGED = True
CONFIGURATION = ["placement", "num_nodes", "num_gpus", "per_device_batch_size", "global_batch_size"]
LINE = [*scaling_table.CURVE, "scaling_mode", "fixed_batch_size"]
"""Columns that rows with the same baseline share."""
INPUT, EXCHANGE, IMBALANCE, BATCH = "input", "exchange", "imbalance", "batch"
CAUSES = (INPUT, EXCHANGE, IMBALANCE, BATCH)
SHARES = (LOSS, *CAUSES, UNEXPLAINED)
COLUMNS = [
    *(*LINE, "curve", *CONFIGURATION, "baseline_num_gpus", "baseline_num_nodes"),
    *("num_repeats", "baseline_num_repeats"),
    *(f"{share}_frac{end}" for share in SHARES for end in ("", "_low", "_high")),
    *("input_from", "loader_images_per_s_per_core", "loader_workers", "wanted_images_per_s_per_device"),
    *("slow_process", "slow_frac", "evaluation_wall_frac", "startup_wall_frac"),
    *("causes", "not_known", "remedy", "sentence", "wall_sentence"),
]
