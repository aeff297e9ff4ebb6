"""Words for learning rates that single frameworks of a study have for themselves."""

import pandas as pd


def describe_own_rates(config: dict, framework: str, variant: str) -> str | None:
    """Return in what a framework learns by other rates than its study, such as `lr_scaling none`; None for nothing.

    config: that of the study.
    """
    own = config["variants"].get(variant, {}).get("optimizer", {})
    optimizer = config["optimizer"] | own
    rates = optimizer["by_framework"].get(framework, {})
    different = [f"{key} {value}" for key, value in rates.items() if value != optimizer[key]]
    return ", ".join(different) or None


def name_own_rates(runs: pd.DataFrame) -> str:
    """Name the frameworks that learn by rates of their own; empty if all learn alike. runs: the table of that name."""
    own = _find_own_rates(runs).drop_duplicates(["framework", "own_rates"])
    return "; ".join(f"{row['framework']} ({row['own_rates']})" for _, row in own.iterrows())


def has_own_rates(table: pd.DataFrame, runs: pd.DataFrame) -> pd.Series:
    """Whether the framework of each row learns by rates of its own. runs: the table of that name, of the same study."""
    own = _find_own_rates(runs)
    cells = set(zip(own["framework"], own["variant"], strict=True))
    rows = zip(table["framework"], table["variant"], strict=True)
    return pd.Series([row in cells for row in rows], table.index, dtype=bool)


def _find_own_rates(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the runs of frameworks that learn by rates of their own; none if all frameworks learn alike."""
    rates = runs.assign(own_rates=runs["own_rates"].astype(object).fillna(""))
    return rates[(rates["own_rates"] != "") & (rates["own_rates"].nunique() > 1)]
