"""Rates on random images are upper bounds, which answers and figures keep apart from those on real images."""

import pandas as pd

from howmanygpus.train.spec import RANDOM_INPUTS, RESIDENT


def is_real(table: pd.DataFrame) -> pd.Series:
    """Whether each row of a table with a column `input` is about real images."""
    return ~table["input"].isin(RANDOM_INPUTS)


def choose_inputs(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows on real images.

    Without any, return the rows on synthetic input, and without those the rows on resident input.
    """
    for left_out in (RANDOM_INPUTS, (RESIDENT,)):
        chosen = table[~table["input"].isin(left_out)]
        if len(chosen):
            return chosen
    return table


PROGRAM = "program"
"""Input of the runs of a user's own program, which alone knows its data."""


def is_program(table: pd.DataFrame) -> bool:
    """Whether the rows of a study are about a user's own program."""
    return bool((table["input"] == PROGRAM).all())
