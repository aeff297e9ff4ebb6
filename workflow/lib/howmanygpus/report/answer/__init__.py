"""
The answer in words: the best framework and device count of a study, with numbers.

The text reads well in a terminal, and it is valid reStructuredText, since the report's first page begins with it.
"""

import pandas as pd

from howmanygpus.report.answer.accuracy import answer_accuracy
from howmanygpus.report.answer.adaptive import describe_grid
from howmanygpus.report.answer.batches import answer_batches
from howmanygpus.report.answer.cost import describe_bill
from howmanygpus.report.answer.doubts import describe_outliers, describe_trend
from howmanygpus.report.answer.independent import compare_independent, list_independent
from howmanygpus.report.answer.largest import describe_largest
from howmanygpus.report.answer.placement import answer_placement
from howmanygpus.report.answer.protocols import describe_protocols
from howmanygpus.report.answer.study import (
    are_mostly_disturbed,
    describe_data,
    describe_disturbed,
    describe_health,
    describe_left_out,
    describe_nothing,
    describe_rates,
    describe_remarks,
    describe_runs,
    describe_stale,
    describe_trajectories,
    describe_unchecked,
    describe_unmeasured,
)
from howmanygpus.report.answer.throughput import answer_throughput
from howmanygpus.report.answer.why import describe_causes
from howmanygpus.report.outcomes import GridDecision
from howmanygpus.report.published import is_control, is_fair
from howmanygpus.report.rows import choose_inputs, is_program


def answer(
    runs: pd.DataFrame,
    scaling: pd.DataFrame,
    time_to_accuracy: pd.DataFrame,
    datasets: pd.DataFrame,
    jobs: pd.DataFrame,
    batch_sizes: pd.DataFrame,
    protocols: pd.DataFrame,
    decision: GridDecision | None = None,
    batch_search: pd.DataFrame | None = None,
    explanations: pd.DataFrame | None = None,
) -> str:
    """Describe the tables of one study, one line per statement.

    decision: what an adaptive study decided; None for a fixed grid. batch_search: the table of that name, if the study
    searched the largest batch. explanations: the table of that name.
    """
    controls = runs[is_control(runs)]
    planned, runs = runs.drop(controls.index), runs[is_fair(runs)]
    real = choose_inputs(scaling)
    real = real[real["images_per_s_median"].notna()]
    if real.empty:
        found = [describe_nothing(runs)]
        # Runs that are too short for a rate may have reached a threshold.
        found += answer_accuracy(runs, time_to_accuracy, datasets) if (runs["status"] == "completed").any() else []
    elif is_program(runs) and runs["variant"].nunique() > 1:
        found = ["Combinations of the program's axes may do different work, so that each is ranked by itself."]
        for variant in runs["variant"].unique():
            own, times, rates, batches = (
                table[table["variant"] == variant] for table in (runs, time_to_accuracy, real, batch_sizes)
            )
            lines = [line for line in rank(own, times, rates, batches, datasets) if line]
            found += [f"{variant}: {line}" for line in lines] or [f"{variant}: It has no rate yet."]
    else:
        found = rank(runs, time_to_accuracy, real, batch_sizes, datasets)
    found += [describe_largest(batch_search), *describe_causes(explanations)]
    # ClockFaults about the order of the frameworks come before it.
    in_doubt = are_mostly_disturbed(planned)
    found = [describe_disturbed(planned)] * in_doubt + [describe_health(planned), *found]
    found = [describe_stale(planned), *found]
    facts = [describe_rates(runs), describe_data(runs, datasets), describe_left_out(datasets)]
    facts += [describe_remarks(datasets), describe_unchecked(planned)]
    facts += [describe_disturbed(planned)] * (not in_doubt)
    facts += [describe_outliers(runs), describe_trend(runs)]
    facts += [describe_unmeasured(runs), describe_trajectories(planned), describe_bill(jobs)]
    facts += describe_protocols(protocols)
    lines = [f"- {line}" for line in [*describe_grid(runs, decision), *found, *facts] if line]
    return "\n".join([describe_runs(planned, controls), "", *lines, ""])


def rank(
    runs: pd.DataFrame,
    time_to_accuracy: pd.DataFrame,
    real: pd.DataFrame,
    batch_sizes: pd.DataFrame,
    datasets: pd.DataFrame,
) -> list[str]:
    """Name the best configurations by each criterion. real: the rows of `scaling` that count and have a rate.

    Independent runs train several networks, so that they are set beside the best and are never the best.
    """
    independent = list_independent(runs)

    def rank_rows(table: pd.DataFrame) -> pd.DataFrame:
        return table[~table["variant"].isin(independent)]

    found = answer_accuracy(rank_rows(runs), rank_rows(time_to_accuracy), datasets)
    found += answer_throughput(runs, rank_rows(real), datasets) if len(rank_rows(real)) else []
    found += compare_independent(real, independent)
    return [*found, *answer_placement(runs), *answer_batches(batch_sizes)]
