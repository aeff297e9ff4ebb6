"""
Quality metrics, one module each.

A module defines NAME (for figures and the answer), UNIT, BETTER (`higher` or `lower`), LABELS (`one` and `several`: how
many labels an image may have) and `compute(predictions)`. It gets the stored predictions of one evaluation over the
whole test split, see report.predictions, and returns a number, or None if it is undefined. Three constants are
optional. RANGE has the lowest and the highest value, None for no limit; thresholds outside of it are refused. With
fewer than MIN_CLASSES classes every network has the same value; its default is two, or one if images have any number
of labels. With more than MAX_CLASSES classes the metric is not defined. A module may also define
`list_undefined_labels(labels)`, which returns the numbers of the labels that the metric leaves out.
"""

import importlib
from pathlib import Path

from howmanygpus.self_description import require_constant


def load_metric(name: str):
    return importlib.import_module(f"{__name__}.{name}")


def name_metric(name: str) -> str:
    """Return the name that figures and answers use."""
    return require_constant(Path(__file__).with_name(f"{name}.py"), "NAME")
