"""The data and devices of a study, and remarks on its runs."""

import pandas as pd

from howmanygpus.report.metrics import name_metric
from howmanygpus.report.rows import choose_inputs, is_program, is_real, name_count, name_own_rates
from howmanygpus.report.trajectory import has_unexplained_losses

FINAL = ("unsupported", "failed_parity", "diverged", "out_of_memory", "clock_mismatch", "suspended", "not_run")
"""Statuses of runs without a rate that no further call of snakemake would change."""
MAX_REASONS_NAMED = 3
DISTURBED_WARNING_FRAC = 0.5
RETRY = ".venv/bin/python workflow/scripts/retry_runs.py"
REPEAT = f"{RETRY} --disturbed"
"""Command that sets disturbed runs aside, before the study whose runs are meant."""


def describe_runs(runs: pd.DataFrame, controls: pd.DataFrame) -> str:
    """Name a study and count its runs by status. controls: its control runs, which are counted apart."""
    first = runs.iloc[0]
    network = first["model"] if pd.isna(first["model_options"]) else f"{first['model']} ({first['model_options']})"
    what = f"the program {first['model']}" if is_program(runs) else f"{network} on {first['dataset']}"
    apart = f"; {name_count(len(controls), 'control run')}: {_count_statuses(controls)}" if len(controls) else ""
    return f"{first['study']}: {what}, {name_count(len(runs), 'run')} planned: {_count_statuses(runs)}{apart}."


def _count_statuses(runs: pd.DataFrame) -> str:
    return ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in runs["status"].value_counts().items())


def describe_unmeasured(runs: pd.DataFrame) -> str:
    """Name the unknown values of a user's program; empty for other studies."""
    if not is_program(runs):
        return ""
    return (
        "The program's own reports are the source of steps, samples and quality. Not measured, and empty in the tables:"
        " parity with other programs, the wait for input, the framework's peak memory, the quality of a guess."
    )


def describe_unchecked(runs: pd.DataFrame) -> str:
    """Say how many runs the parity gate did not check; nothing for a user's program, which it cannot check."""
    done = runs[runs["status"] == "completed"]
    unchecked = int((done["parity"] == "not_checked").sum())
    if not unchecked or is_program(runs):
        return ""
    were = "was" if unchecked == 1 else "were"
    which = "No run was" if unchecked == len(done) else f"{unchecked} of {len(done)} runs {were} not"
    return f'{which} checked by the parity gate (parity: "off"), so that their frameworks may have done different work.'


def describe_stale(runs: pd.DataFrame) -> str:
    """Say which runs a full call would do again, why, and whether they count; empty if there are none."""
    is_other = runs["status"] == "stale"
    stale = runs[is_other | runs["stale_because"].notna()]
    if stale.empty:
        return ""
    reasons = stale["stale_because"].fillna(stale["reason"]).value_counts()
    named = [f"{reason} ({name_count(count, 'run')})" for reason, count in reasons.items()]
    more = [f"and {len(named) - MAX_REASONS_NAMED} more reasons in runs.tsv"] if len(named) > MAX_REASONS_NAMED else []
    are = "is" if len(stale) == 1 else "are"
    text = f"{len(stale)} of {name_count(len(runs), 'run')} {are} stale: {'; '.join(named[:MAX_REASONS_NAMED] + more)}."
    counted = len(stale) - int(is_other.sum())
    text += f" {name_count(counted, 'run')} with the settings of this config count here." if counted else ""
    return f"{text} Only a call without the target available repeats stale runs."


def describe_rates(runs: pd.DataFrame) -> str:
    """Say which frameworks have their own learning rates; nothing if all have the same."""
    named = name_own_rates(runs)
    return named and (
        f"Not all frameworks learn by the same settings: {named}. Their order by quality, or by the time or price to "
        "it, compares these settings too."
    )


def describe_nothing(planned: pd.DataFrame) -> str:
    """Say why a study without a rate on the images that count has no answer, and whether it can get one."""
    runs = choose_inputs(planned)
    on_images = " on real images" if len(runs) < len(planned) and is_real(runs).all() else ""
    if done := int((runs["status"] == "completed").sum()):
        return (
            f"{name_count(done, 'run')}{on_images} completed without a rate: no step came after the warm-up, or after "
            "a first epoch that read its images from the disk."
        )
    if not runs["status"].isin(FINAL).all():
        return f"No run{on_images} has completed, so there is no answer yet."
    is_possible = (runs["status"] != "unsupported").any()
    ended = f"All runs{on_images} have ended, and none gave an answer"
    text = ended if is_possible else f"No run{on_images} of this study can give an answer"
    reasons = [f"{reason} ({name_count(count, 'run')})" for reason, count in runs["reason"].value_counts().items()]
    more = (
        [f"and {len(reasons) - MAX_REASONS_NAMED} more reasons in runs.tsv"] if len(reasons) > MAX_REASONS_NAMED else []
    )
    return f"{text}: {'; '.join(reasons[:MAX_REASONS_NAMED] + more)}."


def describe_data(runs: pd.DataFrame, datasets: pd.DataFrame) -> str:
    """Name the images by split, their classes and size, the devices, and the dates of the runs."""
    real = choose_inputs(datasets)
    known = real[real["num_train"].notna()]
    started = runs["started_at"].dropna().sort_values()
    trained = "To be trained" if started.empty else "Trained"
    text = f"{trained} on {real['dataset'].iloc[0]} ({', '.join(real['input'])})"
    if is_program(real):
        text = f"{trained} by a program of the user on data of its own"
    if len(known):
        first = known.iloc[0]
        count = {
            key: int(first[key]) for key in ("num_train", "num_test", "height", "width", "channels", "num_classes")
        }
        images = f"test image{'' if count['num_test'] == 1 else 's'}"
        # Images of a single class only have the label or lack it.
        classes = "with 1 label" if count["num_classes"] == 1 else f"in {count['num_classes']} classes"
        text += (
            f": {count['num_train']:,} training and {count['num_test']:,} {images} of {count['height']} x"
            f" {count['width']} pixels with {name_count(count['channels'], 'channel')}, {classes}"
        )
        text += _describe_groups(first)
        text += ", which the workflow split" if _has(first.get("split")) else ""
    if started.empty:
        return f"{text}."
    where = ", ".join(describe_devices(runs[runs["started_at"].notna()]))
    first, last = (moment[:16].replace("T", " ") for moment in (started.iloc[0], started.iloc[-1]))
    return f"{text}. Devices: {where}. Runs started from {first} to {last} (UTC)."


def _describe_groups(dataset: pd.Series) -> str:
    """Count the groups that stay in one split, such as patients; nothing if images have no groups."""
    counts = [dataset.get(f"num_{split}_groups") for split in ("train", "test")]
    if any(pd.isna(count) for count in counts):
        return ""
    train, test = (f"{int(count):,}" for count in counts)
    return f", from {train} and {test} groups (such as patients)"


def describe_left_out(datasets: pd.DataFrame) -> str:
    """Name the labels that the metric leaves out; nothing if there are none."""
    if "left_out" not in datasets or not datasets["left_out"].map(_has).any():
        return ""
    first = datasets[datasets["left_out"].map(_has)].iloc[0]
    names = first["left_out"].split("; ")
    labels = name_count(len(names), "label")
    return (
        f"The test {name_metric(first['metric'])} leaves out {labels} that all test images have, or none:"
        f" {', '.join(names)}."
    )


def describe_remarks(datasets: pd.DataFrame) -> str:
    """Say that there are remarks on the images; nothing if there are none."""
    if "remarks" not in datasets or not datasets["remarks"].map(_has).any():
        return ""
    return "There are remarks on the images, in the column remarks of datasets.tsv."


def _has(text) -> bool:
    return isinstance(text, str) and bool(text)


def describe_devices(runs: pd.DataFrame) -> list[str]:
    """Name each kind of device, with the counts that were used, its model and its nodes."""
    described = []
    for device, rows in runs.groupby("device"):
        counts = [str(count) for count in sorted(rows["num_gpus"].unique())]
        models = sorted(rows["device_model"].dropna().unique())
        nodes = sorted({node for each in rows["nodes"].dropna() for node in each.split()})
        described.append(f"{' and '.join(counts)} x {device} ({', '.join(models)}; {', '.join(nodes)})")
    return described


def are_mostly_disturbed(runs: pd.DataFrame) -> bool:
    """Whether other work disturbed half or more of the runs, so that it may have decided their order."""
    known = runs.loc[runs["disturbed"].notna(), "disturbed"]
    return len(known) > 0 and bool(known.eq(True).mean() >= DISTURBED_WARNING_FRAC)


def describe_disturbed(runs: pd.DataFrame) -> str:
    """Say how many runs were disturbed, and how to repeat them; empty if no run recorded other work."""
    known = runs[runs["disturbed"].notna()]
    if known.empty:
        return ""
    disturbed = int(known["disturbed"].eq(True).sum())
    if not disturbed:
        which = "The only run was not" if len(known) == 1 else f"None of {len(known)} runs was"
        return f"{which} disturbed by other work on the machine."
    were, them = ("was", "it") if disturbed == 1 else ("were", "them")
    which = "The only run" if len(known) == 1 else f"{disturbed} of {len(known)} runs"
    text = f"{which} {were} disturbed by other work on the machine; figures mark {them} by a ring."
    if are_mostly_disturbed(runs):
        text += " Rates are lower and times are longer than on an idle machine, and their order may be chance."
    repeat = f"{REPEAT} --study {runs['study'].iloc[0]}"
    return f"{text} To repeat {them}: {repeat}, and then the same call while nothing else runs."


def describe_health(runs: pd.DataFrame) -> str:
    """Say which runs had a device or a host with a finding, and which findings; empty without any."""
    doubtful = runs[runs["health"].map(_has)]
    if doubtful.empty:
        return ""
    named = [f"{text} ({name_count(number, 'run')})" for text, number in doubtful["health"].value_counts().items()]
    more = [f"More are in health.tsv ({len(named) - MAX_REASONS_NAMED})."] if len(named) > MAX_REASONS_NAMED else []
    which = "The only run" if len(runs) == 1 else f"{len(doubtful)} of {name_count(len(runs), 'run')}"
    text = f"{which} had a device or a host that is not in order, which may have decided the order of the frameworks."
    them = "it" if len(doubtful) == 1 else "them"
    repeat = f"To repeat {them} when this is put right: {RETRY} --unhealthy --study {runs['study'].iloc[0]}."
    return " ".join([text, *named[:MAX_REASONS_NAMED], *more, repeat])


def describe_trajectories(runs: pd.DataFrame) -> str:
    """Say whether the losses of comparable runs coincide; nothing if no runs are comparable."""
    compared = runs[runs["trajectory"].notna()]
    if compared.empty:
        return ""
    apart = compared[has_unexplained_losses(compared)]
    if apart.empty:
        return f"The losses of the first epoch coincide in all {len(compared)} runs that can be compared."
    names = ", ".join(sorted(apart["framework"].unique()))
    return (
        f"In {len(apart)} of {len(compared)} runs that can be compared, the losses of the first epoch differ from "
        f"those of the other runs by more than rounding explains ({names}): they did not do the same work."
    )
