"""Judge the files that could not be prepared: refuse the data set, or remark on the files that were left out."""

from collections import Counter
from dataclasses import replace

from howmanygpus.prepare.checks.listed import check_listing
from howmanygpus.prepare.listing import Task
from howmanygpus.prepare.sources import Entry, OptionError, shorten_list

NAMED_FILES = 20
"""Number of bad files that an error names; the logs of the shards name all."""
Exclusion = tuple[Entry, str]
"""A file that could not be prepared, and the reason, whose first word is one of images.REASONS."""


def check_exclusions(task: Task, excluded: list[Exclusion]) -> list[str]:
    """Return the remarks on the files left out.

    Raises ValueError if bad files are not to be skipped, or if those that remain cannot be trained on.
    """
    if not excluded:
        return []
    other_size = sum(reason.startswith("other_size") for _, reason in excluded)
    if 2 * other_size > len(task.listing.entries):
        raise ValueError(_explain_size(task, excluded, other_size))
    if task.preparation.on_bad_file == "fail":
        raise ValueError(_explain(excluded))
    bad = {entry.path for entry, _ in excluded}
    rest = [entry for entry in task.listing.entries if entry.path not in bad]
    try:
        check_listing(replace(task.listing, entries=rest))
    except OptionError as error:
        raise ValueError(f"without the files that cannot be prepared, {error}\n{_explain(excluded)}") from None
    numbers, names = _count_reasons(excluded), shorten_list(entry.path for entry, _ in excluded)
    return [f"files left out: {len(excluded)} of {len(task.listing.entries)} ({numbers}), namely {names}"]


def _explain(excluded: list[Exclusion]) -> str:
    """Return a message with the number of files for each reason, and the names of the first files."""
    lines = [f"  {entry.path}: {reason}" for entry, reason in excluded[:NAMED_FILES]]
    if len(excluded) > NAMED_FILES:
        lines.append(f"  and {len(excluded) - NAMED_FILES} more, in the logs of the shards")
    heading = f"{len(excluded)} files cannot be prepared ({_count_reasons(excluded)}):"
    if any(reason.startswith("unknown") for _, reason in excluded):
        lines.append("Only PNG and JPEG are read: convert images of other kinds.")
    if any(reason.startswith("unreadable") for _, reason in excluded):
        lines.append("Ask for the right to read them if it is denied: `ls -l` shows who has it.")
    return "\n".join([heading, *lines, "Repair or remove them, or set `on_bad_file: skip`."])


def _explain_size(task: Task, excluded: list[Exclusion], count: int) -> str:
    """Return a message if the first image, whose size the data set gets, differs in size from most others."""
    bad = {entry.path for entry, _ in excluded}
    first = next((entry.path for entry in task.listing.entries if entry.path not in bad), "the first image")
    height, width, _ = task.image_shape
    return (
        f"{count} of {len(task.listing.entries)} images differ in size from {first}, the first one ({height}x{width}). "
        "Set `size: [height, width]` to resize all images, or correct or remove that one."
    )


def _count_reasons(excluded: list[Exclusion]) -> str:
    reasons = Counter(reason.partition(":")[0] for _, reason in excluded)
    return ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())
