"""The table of settings has one row per set of settings of each configuration."""

import pandas as pd

from helpers.specs import make_spec
from helpers.stored_runs import plan_of, store_run
from howmanygpus.report.tables import how_each_framework_ran


def test_settings_are_one_row_per_set_with_the_device_counts_that_had_it(tmp_path):
    """A variable of the shell that one run had makes another row; a record without settings has empty cells."""
    eager = {"execution": "eager", "layout": "NCHW", "optimizer": "torch.optim.SGD, for-loop", "OMP_NUM_THREADS": "1"}
    specs = [make_spec(num_gpus=count, repeat=repeat) for count in (1, 2) for repeat in (1, 2)]
    for number, changes in enumerate([{}, {"NCCL_ALGO": "Ring"}, {}]):
        store_run(tmp_path, f"run{number}", specs[number], settings=eager | changes)
    store_run(tmp_path, "run3", specs[3])
    table = how_each_framework_ran.tabulate(plan_of(*specs), tmp_path)
    assert table[["num_gpus", "num_runs"]].values.tolist() == [["1, 2", 2], ["1", 1], ["2", 1]]
    assert table["execution"].tolist()[:2] == ["eager"] * 2 and pd.isna(table["execution"].iloc[2])
    assert table["variables"].tolist()[:2] == ["OMP_NUM_THREADS=1", "OMP_NUM_THREADS=1 NCCL_ALGO=Ring"]


def test_prefetched_batches_count_for_all_runs_of_a_row(tmp_path):
    """A framework that fetches by itself may hold more in some runs than in others."""
    specs = [make_spec(repeat=repeat) for repeat in (1, 2, 3)] + [make_spec(variant="in_line")]
    for number, ahead in enumerate((10, 4, 10, 0)):
        store_run(tmp_path, f"run{number}", specs[number], batches_ahead=ahead)
    table = how_each_framework_ran.tabulate(plan_of(*specs), tmp_path)
    assert table[["num_runs", "batches_ahead"]].values.tolist() == [[3, "4, 10"], [1, "0"]]
    assert how_each_framework_ran.list_distinct((None, None)) is None, "of a user's program it is not known"
