"""Writes docs/parity.md: the checks of the parity gate, their limits, and the faults that the tests plant."""

import textwrap

from gate.faults import (
    EXCHANGED,
    FAMILIES,
    FAULTS,
    FAULTS_OF_ACCUMULATION,
    FAULTS_OF_COMPRESSION,
    FAULTS_OF_DROPOUT,
    FAULTS_OF_EXCHANGE,
    FAULTS_OF_FP16,
    FAULTS_OF_KVSTORE,
    FAULTS_OF_LABELS,
    FAULTS_OF_NUMBERS,
    FAULTS_OF_OPTIMIZERS,
    FAULTS_OF_PLAIN_SGD,
    IGNORED_PRECISION,
    IN_BF16,
)
from howmanygpus.gate import allowances, task
from howmanygpus.gate.coverage import ASPECTS
from howmanygpus.gate.judge import CHECKS
from howmanygpus.settings import OPTIMIZER, SETTINGS
from project import ROOT

IN_FP32 = FAULTS | FAULTS_OF_OPTIMIZERS | FAULTS_OF_PLAIN_SGD | FAULTS_OF_NUMBERS
IN_FP32 |= FAULTS_OF_LABELS | FAULTS_OF_DROPOUT | FAULTS_OF_ACCUMULATION
PATH = ROOT / "docs" / "parity.md"
WHOLE_WORDS = {"break_long_words": False, "break_on_hyphens": False}
TEXT = """\
# What the parity gate checks, and what it catches

`make references` generates this page from the gate and its tests.

Before anything is timed, each framework does one task with fixed images and weights: an evaluation, {steps} optimizer
steps over {epochs} epochs with sgd and as many with the optimizer of the runs, and two evaluations of {test} images
with a short last batch. The global batch has {batch} images, cropped and flipped at random. Learning rates are those of
the runs' code, at every seventh step of a run of {longer} steps up to its last. The task is done on one device and on
three, or on two if the machine has no more, and compared with a float64 reference. Images with any number of labels,
some of them missing, have a task of their own, and so has each value of `label_smoothing`. A user's model in a single
file is compared with one device in one process ([own_model.md](own_model.md)).

In fp16 the loss scale is {scale:g}, at which nothing overflows. Before step {skipped} the last device gets one at which
all its gradients overflow, so that all devices must skip the step; a framework that computes in float32 does not.

## Checks

| check | what is compared |
|---|---|
{checks}

## Limits

- fp32: fixed numbers; in short networks frameworks stay within 0.6 of them. They are widened by {float32} times what
  PyTorch's own float32 changes, and by what ReLU inputs change whose sign rounding decides.
- bf16: a multiple of the noise that the reference measures for each array by simulating the rounding of bf16: {many}
  for arrays of {elements} elements or more and for all arrays together, and {few} for others; in TensorFlow and Keras
  on CPUs, where kernels round more often, {coarse} for all single arrays.
- tf32 and fp16: the same with three more significant bits.

In reduced precision an array whose limit exceeds {told} is not judged by itself. The limits of whole gradients and
updates are at most {direction} for one minus the cosine and {norm} for the norm. A framework's logits must differ from
the reference by at least {least} times what those of the simulation do, and no array may have values that all fit into
a half-precision format. A verdict in reduced precision, or on compressed gradients, requires the one in fp32 without
compression on the same code. Compressed gradients widen the limits:

| compression | whole gradients, updates and arrays | added with several axes | losses, statistics, evaluations |
|---|---|---|---|
{compressions}

## What is covered, and by what

Runs with other values of a setting of the *cell* need a verdict of their own. The *task* covers other settings for all
their values (`settings.py`, `gate/coverage.py`). The parity page of a report lists what the gate has not looked at.

| setting or aspect | covered by | how, or why not |
|---|---|---|
{settings}

## Planted faults

Each is planted in one strategy of every family, on two devices of a CPU, in a task that can show it. MXNet and Chainer
have no bf16 and no fp16, flax no fp16. Horovod's backends are also shown gradients that are not averaged, that are
summed, and that are exchanged in float16 without saying so, and compression by fp16 that exchanges float32.

By the check that names it, in fp32 unless said otherwise:

{faults}
"""


def describe_precisions(family: str, fault: str) -> str:
    if fault in IGNORED_PRECISION:
        return "bf16" if FAMILIES[family].has_bf16 else ""
    if fault == EXCHANGED:
        return "fp32, bf16" if FAMILIES[family].has_bf16 else "fp32"
    if fault in FAULTS_OF_KVSTORE:
        return "fp32" if family == "gluon" else ""
    if fault in FAULTS_OF_COMPRESSION:
        return "fp32, bf16" if family == "torch" else ""
    if fault in FAULTS_OF_EXCHANGE:
        return "bf16" if FAMILIES[family].has_bf16 else ""
    if fault in FAULTS_OF_FP16:
        return "fp16" if FAMILIES[family].has_fp16 else ""
    if fault not in IN_FP32:
        return ""
    return "fp32, bf16" if fault in (*IN_BF16, *FAULTS_OF_NUMBERS) and FAMILIES[family].has_bf16 else "fp32"


def describe_planting(fault: str) -> str:
    """Return the precisions in which a fault is planted, with the families if others have this precision too."""
    places: dict[str, list[str]] = {}
    for precision, able in (("fp32", ""), ("bf16", "has_bf16"), ("fp16", "has_fp16")):
        having = [family for family in FAMILIES if not able or getattr(FAMILIES[family], able)]
        planted = [family for family in FAMILIES if precision in describe_precisions(family, fault)]
        if planted:
            places.setdefault("" if planted == having else f" ({', '.join(planted)})", []).append(precision)
    return "; ".join(", ".join(precisions) + families for families, precisions in places.items())


def describe_gating() -> list[tuple[str, str, str]]:
    """Return (setting, how the gate checks it, in what way or why not) of every setting of a run."""
    named = {key: setting for key, setting in SETTINGS.items() if key != "optimizer"}
    named |= {f"optimizer.{key}": setting for key, setting in OPTIMIZER.items()}
    return [(f"`{key}`", setting.gate.by, setting.gate.how) for key, setting in named.items()]


def describe_aspects() -> list[tuple[str, str, str]]:
    """Return (aspect of the work, checks that cover it, how or why not) of what no setting names."""
    checks = {one.name: ", ".join(f"`{check}`" for check in one.checks) or "not covered" for one in ASPECTS}
    return [(one.name, checks[one.name], one.how) for one in ASPECTS]


def render() -> str:
    every = (
        IN_FP32 | IGNORED_PRECISION | FAULTS_OF_EXCHANGE | FAULTS_OF_KVSTORE | FAULTS_OF_COMPRESSION | FAULTS_OF_FP16
    )
    rows: dict[tuple[str, str], list[str]] = {}
    for name, kind, how in [*describe_aspects(), *describe_gating()]:
        rows.setdefault((kind, how), []).append(name)
    settings = [f"| {', '.join(names)} | {kind} | {how} |" for (kind, how), names in rows.items()]
    checks = [f"| `{check}` | {meaning} |" for check, meaning in CHECKS.items()]
    faults = []
    for check in CHECKS:
        planted = {name: (fault, describe_planting(name)) for name, fault in every.items() if fault.check == check}
        texts = [
            f"`{name}` ({fault.what}{'' if where == 'fp32' else f'; in {where}'})"
            for name, (fault, where) in planted.items()
        ]
        faults.append(textwrap.fill(f"- `{check}`: {', '.join(texts)}", 120, subsequent_indent="  ", **WHOLE_WORDS))
    return TEXT.format(
        **{"steps": task.NUM_STEPS, "epochs": task.NUM_STEPS * task.GLOBAL_BATCH_SIZE // task.NUM_TRAIN + 1},
        **{"longer": task.SCHEDULE_STRIDE * task.NUM_STEPS, "test": task.NUM_TEST, "batch": task.GLOBAL_BATCH_SIZE},
        **{"least": allowances.MIN_NOISE_RATIO, "settings": "\n".join(settings)},
        **{"scale": task.LOSS_SCALE, "skipped": task.SKIPPED_STEP},
        **{"checks": "\n".join(checks), "faults": "\n".join(faults)},
        **{"many": allowances.MANY, "few": allowances.FEW, "elements": allowances.LARGE_ARRAY_ELEMENTS},
        **{"coarse": allowances.COARSE["keras", "cpu", "bf16"]},
        **{"float32": f"{allowances.FLOAT32_FACTOR:g}"},
        **{
            "told": allowances.MAX_JUDGED_LIMIT,
            "direction": allowances.MAX_DIRECTION,
            "norm": allowances.MAX_NORM_RATIO,
        },
        compressions="\n".join(
            f"| `{name}` | {limits.relative:.2g} | {limits.kernels:.2g} | {limits.state:.2g} |"
            for name, limits in allowances.COMPRESSIONS.items()
            if name != "none"
        ),
    )


if __name__ == "__main__":
    PATH.write_text(render())
