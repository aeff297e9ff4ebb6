"""The page of the gallery, by its template in workflow/report/."""

from howmanygpus.report.answer.texts import fill_text
from howmanygpus_tools.gallery.gallery import Entry, Pair


def render_gallery(entries: list[Entry], pairs: list[Pair], figures: dict[str, str]) -> str:
    """Return the page of the gallery in Markdown. figures: the file of each study's figure."""
    studies = group_by_study(entries)
    return fill_text("gallery.md.jinja", is_folded=False, studies=studies, pairs=pairs, figures=figures)


def group_by_study(entries: list[Entry]) -> dict[str, list[Entry]]:
    """Return the entries of each study, by the heading of the study."""
    studies: dict[str, list[Entry]] = {}
    for entry in entries:
        study, network, dataset = entry.study
        studies.setdefault(f"{study}: {network}{f' on {dataset}' if dataset else ''}", []).append(entry)
    return studies
