"""Answer the question for one study: as facts, as texts that begin with the decision and, on a cluster, as a script."""

import json
from pathlib import Path

from howmanygpus.base.requests import read_request
from howmanygpus.files import write_json_atomic, write_text_atomic
from howmanygpus.paths import RUNS
from howmanygpus.report.answer.details import describe
from howmanygpus.report.answer.facts import Question, decide
from howmanygpus.report.answer.predicted import describe_predicted
from howmanygpus.report.answer.texts import render_answer
from howmanygpus.report.answer.use import list_uses
from howmanygpus.report.files import read_table
from howmanygpus.report.result import make_result
from howmanygpus.site.batch_script import make_batch_script
from howmanygpus.site.machine import read_machine


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
    request = read_request()
    given, made = request.input, request.output
    tables = {path.stem: read_table(path) for path in given.tables}
    times = tables.pop("time_to_accuracy")
    search = read_table(given.batch_search[0]) if given.batch_search else None
    decision = json.loads(given.decision.read_text()) if given.decision else None
    plan = json.loads(given.plan.read_text())
    losses, utilisation = tables.pop("losses"), tables.pop("utilisation")
    question, allreduce = Question.of(plan["config"]), read_table(given.allreduce[0]) if given.allreduce else None
    facts = decide(tables["runs"], times, question, tables["explanations"], losses, utilisation, allreduce)
    write_json_atomic(made.result, make_result(tables["runs"], facts, plan))
    predicted = read_table(given.predictions[0]) if given.predictions else None
    beyond = describe_predicted(predicted, facts["decisions"], facts["asked"]) if predicted is not None else None
    facts["details"] = describe(**tables, decision=decision, batch_search=search, predicted=beyond)
    facts["details"]["uses"] = list_uses(facts["decisions"], tables["runs"], utilisation)
    if made.batch_script:
        (path,) = made.batch_script
        script = write_script(facts["decisions"], plan, Path(request.values.machine[0]), request.values.account)
        facts["batch_script"] = script and script | {"path": str(path)}
        write_text_atomic(path, script["text"] if script else "# There is no recommendation.\n")
    write_json_atomic(made.facts, facts)
    for path in (made.answer, made.markdown):
        write_text_atomic(path, render_answer(facts, path.suffix.removeprefix(".")))


if __name__ == "__main__":
    main()
