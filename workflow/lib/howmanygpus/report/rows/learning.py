"""Wording for the learning rates of frameworks that have settings of their own."""

import pandas as pd


def describe_own_rates(config: dict, framework: str, variant: str) -> str | None:
    """Return a framework's own learning-rate settings, such as `lr_scaling none`; None if it has those of its study.

    config: that of the study.
    """
    own = config["variants"].get(variant, {}).get("optimizer", {})
    optimizer = config["optimizer"] | own
    rates = optimizer["by_framework"].get(framework, {})
    different = [f"{key} {value}" for key, value in rates.items() if value != optimizer[key]]
    return ", ".join(different) or None


def name_own_rates(runs: pd.DataFrame) -> str:
    """Name the frameworks with their own learning rates; empty if all have the same. runs: the table of that name."""
    own = _select_own_rates(runs).drop_duplicates(["framework", "own_rates"])
    return "; ".join(f"{row['framework']} ({row['own_rates']})" for _, row in own.iterrows())


def has_own_rates(table: pd.DataFrame, runs: pd.DataFrame) -> pd.Series:
    """Return whether each row's framework has its own learning rates. runs: the table of that name of the study."""
    own = _select_own_rates(runs)
    cells = set(zip(own["framework"], own["variant"], strict=True))
    rows = zip(table["framework"], table["variant"], strict=True)
    return pd.Series([row in cells for row in rows], table.index, dtype=bool)


def _select_own_rates(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the runs of frameworks with their own learning rates; none if all frameworks have the same."""
    rates = runs.assign(own_rates=runs["own_rates"].astype(object).fillna(""))
    return rates[(rates["own_rates"] != "") & (rates["own_rates"].nunique() > 1)]
