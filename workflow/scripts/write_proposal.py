"""Write what a proposal for computing time says about a study: as Markdown, LaTeX and plain text, with its figure."""

import argparse
import json
from pathlib import Path

from howmanygpus.files import atomic_folder
from howmanygpus.report.answer.texts import render_proposal
from howmanygpus.report.files import read_table
from howmanygpus.report.proposal import collect, draw, save

TABLES = ("runs", "scaling", "utilisation")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=Path, required=True, help="folder of the study's tables, with its answer.json")
    parser.add_argument("--plan", type=Path, required=True, help="the study's plan")
    parser.add_argument("--folder", type=Path, required=True, help="folder to write")
    arguments = parser.parse_args()
    answer = json.loads((arguments.tables / "answer.json").read_text())
    tables = [read_table(arguments.tables / f"{name}.tsv") for name in TABLES]
    facts = collect(answer, *tables, json.loads(arguments.plan.read_text())["config"])
    with atomic_folder(arguments.folder) as partial:
        for suffix in ("md", "tex", "txt"):
            (partial / f"proposal.{suffix}").write_text(render_proposal(facts, suffix))
        if facts["curves"]:
            save(draw(facts), partial)
        script = arguments.tables / "run.sbatch"
        if script.exists():
            (partial / script.name).write_text(script.read_text())


if __name__ == "__main__":
    main()
