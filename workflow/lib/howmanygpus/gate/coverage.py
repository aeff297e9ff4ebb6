"""
What the gate's task reaches of the work that runs do, and what of the runs behind a verdict nobody has looked at.

The settings of runs are declared in howmanygpus.settings; these aspects are none of them.
"""

from typing import NamedTuple

from howmanygpus.gate.allowances import CHECKS
from howmanygpus.gate.task import GLOBAL_BATCH_SIZE
from howmanygpus.gate.task_forms import PART


class Aspect(NamedTuple):
    """checks: those that cover it; none if it is not covered. how: in what way, or why not."""

    name: str
    checks: tuple[str, ...]
    how: str


ASPECTS = (
    Aspect(
        "end of a schedule",
        ("updates_sgd", "updates_own"),
        "the last step has the learning rate of the last step of a longer run, 0.3 % of the peak of a cosine",
    ),
    Aspect("mean loss of a window", ("losses",), "windows of one step with sgd, and of two with the runs' optimizer"),
    Aspect(
        "number of accumulated batches",
        ("averaging", "gradients"),
        f"as many as have {PART} of {GLOBAL_BATCH_SIZE} images: six on one device, three on two, two on three",
    ),
    Aspect("gradients clipped at a norm above the task's", (), "no setting clips; a hidden clip would not act here"),
    Aspect("steps after the sixth", (), "the task has six; the losses of runs of the same work are compared"),
    Aspect(
        "more devices than three",
        (),
        "a verdict on three devices, or on two, stands for them; three show a mean of means, but no limit above three",
    ),
    Aspect("several devices on each of several nodes", (), "a verdict on two nodes with one device each stands for it"),
    Aspect(
        "what nn.DataParallel exchanges",
        (),
        "not observed: it adds gradients inside PyTorch's copies between GPUs, and on CPUs it uses one device",
    ),
    Aspect("more nodes than two", (), "a verdict on two nodes stands for them"),
)
"""Aspects of the work that no setting names."""
ONLY_IN = {
    "exchange": "only on several devices, and not of nn.DataParallel",
    **dict.fromkeys(
        ("gradients", "updates_sgd", "updates_own"), "only of arrays that noise or compression cannot hide"
    ),
    "noise": "only in reduced precision",
    "skipped": "only in fp16",
    "replicas": "only of devices with weights of their own",
    "statistics": "only with running statistics that can be compared",
    "united": "only on several devices",
}
"""Checks that not every verdict has, with the reason."""


def describe_layout(devices: int, nodes: int) -> str:
    text = f"{devices} device{'s' if devices > 1 else ''}"
    return text + (f" of {nodes} nodes" if nodes > 1 else "")


def describe_gaps(verdict: dict) -> str:
    """Say what of the runs behind a verdict was not looked at; empty if nothing was left out or nothing looked at.

    verdict: with `planned`, see study.gate_cells.describe_planned, if it is known.
    """
    rows, planned = verdict["checks"], verdict.get("planned", {})
    if not rows:
        return ""
    seen = {(row["devices"], row["nodes"]) for row in rows}
    largest = describe_layout(*max(seen, key=lambda layout: layout[::-1]))
    made = {row["check"] for row in rows}
    lacking = [name + (f" ({ONLY_IN[name]})" if name in ONLY_IN else "") for name in CHECKS if name not in made]
    layouts = [describe_layout(*layout) for layout in planned.get("layouts", []) if tuple(layout) not in seen]
    gaps = [f"{layout}: stands on the verdict of {largest}" for layout in layouts]
    gaps += [f"{key} = {value}: {why}" for key, value, why in planned.get("settings", [])]
    gaps += [
        f"{check}: {count} judged only as a part of the whole" for check, count in verdict.get("unjudged", {}).items()
    ]
    return "; ".join([*gaps, *([f"checks not made: {', '.join(lacking)}"] if lacking else [])])
