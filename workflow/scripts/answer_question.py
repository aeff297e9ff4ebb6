"""Answer the question for one study: as facts, as texts that begin with the decision and, on a cluster, as a script."""

import argparse
import json
from pathlib import Path

from howmanygpus.files import write_json_atomic, write_text_atomic
from howmanygpus.paths import RUNS
from howmanygpus.report.answer.details import describe
from howmanygpus.report.answer.facts import Question, decide
from howmanygpus.report.answer.texts import render_answer
from howmanygpus.report.files import read_table
from howmanygpus.report.result import make_result
from howmanygpus.site.batch_script import make_batch_script
from howmanygpus.site.machine import read_machine

TABLES = ("runs", "scaling", "datasets", "jobs", "batch_sizes", "protocols", "explanations")


def write_script(decisions: list[dict], plan: dict, machine: Path, account: str | None) -> dict[str, str] | None:
    """Return the batch script of the first recommendation; None if there is none. decisions: those of answer.json."""
    decision = next((each for each in decisions if each["recommended"]), None)
    if decision is None:
        return None
    chosen = decision["recommended"]
    spec = plan["runs"][str(Path(chosen["run_dirs"][0]).relative_to(RUNS))]["spec"]
    walls = [json.loads((Path(folder) / "run.json").read_text())["wall_time_s"] for folder in chosen["run_dirs"]]
    return {"of": decision["of"], "text": make_batch_script(spec, max(walls), read_machine(machine), account)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=Path, required=True, help="folder of the study's tables")
    parser.add_argument("--plan", type=Path, required=True, help="the study's plan")
    parser.add_argument("--decision", type=Path, nargs="?", help="why runs of an adaptive study are not done")
    parser.add_argument("--batch-search", type=Path, nargs="?", help="table of the searches for the largest batch")
    parser.add_argument("--machine", type=Path, nargs="?", help="machine file of a cluster")
    parser.add_argument("--account", nargs="?", help="account of the cluster that is charged, if one is named")
    parser.add_argument("--answers", type=Path, nargs=2, required=True, help="files to write: answer.txt and answer.md")
    parser.add_argument("--facts", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--result", type=Path, required=True, help="JSON file to write, for comparisons")
    parser.add_argument("--batch-script", type=Path, nargs="?", help="file to write, on a cluster")
    arguments = parser.parse_args()
    tables = {name: read_table(arguments.tables / f"{name}.tsv") for name in TABLES}
    times = read_table(arguments.tables / "time_to_accuracy.tsv")
    search = read_table(arguments.batch_search) if arguments.batch_search else None
    decision = json.loads(arguments.decision.read_text()) if arguments.decision else None
    plan = json.loads(arguments.plan.read_text())
    facts = decide(tables["runs"], times, Question.of(plan["config"]), tables["explanations"])
    write_json_atomic(arguments.result, make_result(tables["runs"], facts, plan))
    facts["details"] = describe(**tables, decision=decision, batch_search=search)
    if arguments.batch_script:
        script = write_script(facts["decisions"], plan, arguments.machine, arguments.account)
        facts["batch_script"] = script and script | {"path": str(arguments.batch_script)}
        write_text_atomic(arguments.batch_script, script["text"] if script else "# There is no recommendation.\n")
    write_json_atomic(arguments.facts, facts)
    for path in arguments.answers:
        write_text_atomic(path, render_answer(facts, path.suffix.removeprefix(".")))


if __name__ == "__main__":
    main()
