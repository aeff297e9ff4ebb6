"""Tables on disk: tab-separated with a header line; an undefined value is empty."""

from pathlib import Path

import pandas as pd

from howmanygpus.files import atomic_path
from howmanygpus.paths import ATTEMPTS, RUNS
from howmanygpus.report.columns import COLUMNS


def write_table(path: Path, table: pd.DataFrame) -> None:
    """Write a table atomically; numbers get six significant digits."""
    with atomic_path(path) as partial:
        table.to_csv(partial, sep="\t", index=False, float_format="%.6g")


TEXTS = [column.name for column in COLUMNS if column.kind is str]
TEXTS += """
    base_variant metric quality_metric protocol control currency gradients_of class left_out split model_options
    own_rates curve series kind of part layout search record status reason stale_because repeats_ended health problem
    telemetry_problem refusal remark remarks remedy finding sentence wall_sentence effect causes lacks not_known
    framework_version python_version device_model driver_version git_commit manifest_sha256 hostname nodes gpu_uuids
    most_throttled throttled_device slow_process processes processes_s job_id started_at measured_at parity run_dir
    trace better clock roles outcome limit limit_reason max_limit lowest_bound scaling_mode best_one_device run_next
    about name title authors year url feeding source version hardware program input_from throttle_reasons energy_from
    flops_from activity_missing steps_include same_quality measure comparable compared_with counted_by fair_order
    unfair_order order_changes baseline_machinery operator_1 operator_2 operator_3
""".split()  # noqa: SIM905, because a list would take a line for each
"""
Columns that hold texts. They stay texts if all of them look like a number, as the label `3`, the version 440.100 or the
host `41e706` do. Names of columns that are numbers in another table are left out.
"""
COUNTS = {"parity": {"nodes"}}
"""Columns with these names that are numbers nevertheless, by the name of the table."""


def read_table(path: Path) -> pd.DataFrame:
    texts = dict.fromkeys(set(TEXTS) - COUNTS.get(Path(path).stem, set()), str)
    return pd.read_csv(path, sep="\t", keep_default_na=False, na_values=[""], dtype=texts)


def read_texts(path: Path) -> pd.DataFrame:
    """Read a table with all values as they are written; an undefined one is an empty text."""
    return pd.read_csv(path, sep="\t", dtype=str, na_filter=False)


def find_record(run: str, results: Path = Path()) -> Path | None:
    """Return the record of a run, or of the last attempt at it, below a folder that holds `results/`; None without any.

    run: its path below results/runs/.
    """
    record = RUNS / run / "run.json"
    if (results / record).exists():
        return record
    attempts = sorted((results / ATTEMPTS / run).glob("*/attempt.json"))
    return attempts[-1].relative_to(results) if attempts else None
