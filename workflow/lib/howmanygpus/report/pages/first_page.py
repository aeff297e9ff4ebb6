"""
The first page of the report: the answers of all studies as HTML, which Snakemake shows inside a page of its own.

The words are in workflow/report/templates/first_page.html.jinja and in those of the answer, the layout in
first_page.css. The page needs no other file, and everything that data may name is escaped.
"""

import base64
import json
import textwrap
from pathlib import Path
from typing import Any

from howmanygpus.paths import FIGURES, TABLES
from howmanygpus.report.answer.bill import add_up_bill
from howmanygpus.report.answer.texts import compare_rows, list_sections
from howmanygpus.report.files import read_table
from howmanygpus.report.words import fill

Facts = dict[str, Any]
FIGURE = "decision"
"""The figure of each study that the page shows."""
LONGEST_LINE = 1000
"""Letters of a line. docutils refuses lines of 10,000 letters."""


def read_first_page(
    studies: dict[str, Facts], arguments: list[str], tables: Path = TABLES, figures: Path = FIGURES
) -> str:
    """Return the page about the answers that exist. Nothing is read unless Snakemake's arguments ask for the report.

    studies: the complete config of each.
    """
    if not any(argument.split("=")[0] == "--report" for argument in arguments):
        return ""
    answers = {}
    for study in studies:
        path = tables / study / "answer.json"
        answers[study] = json.loads(path.read_text()) if path.exists() else None
    images = {study: figures / study / f"{FIGURE}.svg" for study in studies}
    encoded = {study: base64.encodebytes(path.read_bytes()).decode() for study, path in images.items() if path.exists()}
    jobs = tables / "jobs.tsv"
    bill = add_up_bill(read_table(jobs)) if len(answers) > 1 and jobs.exists() else None
    return render_first_page(answers, encoded, bill, studies)


def render_first_page(
    answers: dict[str, Facts | None], figures: dict[str, str], bill: Facts | None, configs: dict[str, Facts]
) -> str:
    """Return the page as HTML whose lines neither docutils nor a browser takes for anything else.

    answers: the facts of each study; None if there are none yet. figures: SVG files in base64, by study. bill: that of
    all studies together; None for one. configs: those of the studies, of which cards say what they compare.
    """
    studies = [_describe(name, facts, figures.get(name), configs.get(name)) for name, facts in answers.items()]
    page = fill("first_page.html.jinja", studies=studies, bill=bill)
    return "\n".join(part for line in page.splitlines() for part in _break(line))


def _describe(name: str, facts: Facts | None, figure: str | None, config: Facts | None) -> dict[str, Any]:
    """Return what the page shows of a study. A figure without any configuration would only repeat the refusal."""
    if facts is None:
        return {"name": name, "facts": None, "decisions": [], "config": config}
    figure = figure if any(each["configurations"] for each in facts["decisions"]) else None
    decisions = [_describe_decision(each, facts["unit"]) for each in facts["decisions"]]
    doubts = [(each["of"], doubt) for each in facts["decisions"] for doubt in each["doubts"][1:]]
    return {"name": name, "facts": facts, "figure": figure, "config": config} | {
        "decisions": decisions,
        "doubts": doubts,
        "sections": list_sections(facts),
    }


def _describe_decision(decision: Facts, unit: str) -> dict[str, Any]:
    """Return a decision with its table, its gravest doubt and, if that names nothing to do, the first that does."""
    doubts = decision["doubts"]
    gravest = doubts[0] if doubts else None
    is_open = gravest is not None and not gravest["run_next"]
    return {
        "facts": decision,
        "table": compare_rows(decision, unit) if decision["counts"] else None,
        "gravest": gravest,
        "next": next((doubt for doubt in doubts if doubt["run_next"]), None) if is_open else None,
    }


def _break(line: str) -> list[str]:
    """Return the parts of a line, which is broken between words if it is too long."""
    if len(line) <= LONGEST_LINE:
        return [line]
    return textwrap.wrap(line, LONGEST_LINE, break_long_words=False, break_on_hyphens=False)
