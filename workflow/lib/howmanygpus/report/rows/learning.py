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
    rates = runs.assign(own_rates=runs["own_rates"].astype(object).fillna(""))
    rates = rates.drop_duplicates(["framework", "own_rates"])
    if rates["own_rates"].nunique() < 2:
        return ""
    own = rates[rates["own_rates"] != ""]
    return "; ".join(f"{row['framework']} ({row['own_rates']})" for _, row in own.iterrows())
