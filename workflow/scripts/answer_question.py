"""Answer the question for one study: the facts of the decision, and a text that begins with them."""

import argparse
import json
from pathlib import Path

from howmanygpus.files import write_json_atomic, write_text_atomic
from howmanygpus.report.answer import answer
from howmanygpus.report.answer.facts import Question, decide
from howmanygpus.report.files import DETAILS, read_table
from howmanygpus.report.result import make_result
from howmanygpus.report.texts import render

TABLES = ("runs", "scaling", "time_to_accuracy", "datasets", "jobs", "batch_sizes", "protocols", "explanations")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=Path, required=True, help="folder of the study's tables")
    parser.add_argument("--plan", type=Path, required=True, help="the study's plan")
    parser.add_argument("--decision", type=Path, nargs="?", help="why runs of an adaptive study are not done")
    parser.add_argument("--answer", type=Path, required=True, help="text file to write")
    parser.add_argument("--facts", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--batch-search", type=Path, nargs="?", help="table of the searches for the largest batch")
    parser.add_argument("--result", type=Path, required=True, help="JSON file to write, for comparisons")
    arguments = parser.parse_args()
    tables = {name: read_table(arguments.tables / f"{name}.tsv") for name in TABLES}
    tables["batch_search"] = read_table(arguments.batch_search) if arguments.batch_search else None
    decision = json.loads(arguments.decision.read_text()) if arguments.decision else None
    plan = json.loads(arguments.plan.read_text())
    question = Question.of(plan["config"])
    facts = decide(tables["runs"], tables["time_to_accuracy"], question, tables.get("explanations"))
    write_json_atomic(arguments.facts, facts)
    write_json_atomic(arguments.result, make_result(tables["runs"], facts, plan))
    details = answer(**tables, decision=decision)
    write_text_atomic(arguments.answer, f"{render(facts, 'answer.txt.jinja')}\n{DETAILS}\n\n{details}")


if __name__ == "__main__":
    main()
