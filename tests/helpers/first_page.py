"""The first page of a report, as Snakemake renders it before it becomes HTML."""

from types import SimpleNamespace

import jinja2

from project import ROOT

PAGE = ROOT / "workflow" / "report" / "workflow.rst"


def describe(study: dict, sources: list[dict] = ()) -> str:
    """Return the page of one study, named s, in one line. study: its config with defaults."""
    config = {"studies": {"s": study}, "sources": {"s": sources}, "first_page": ""}
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    page = environment.from_string(PAGE.read_text())
    config |= {"concurrency": "", "workflow_version": ""}
    return " ".join(page.render(snakemake=SimpleNamespace(config=config)).split())
