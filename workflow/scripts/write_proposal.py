"""Write what a proposal for computing time says about a study: as Markdown, LaTeX and plain text, with its figure."""

import json

from howmanygpus.base.requests import read_request
from howmanygpus.files import atomic_folder
from howmanygpus.report.answer.texts import render_proposal
from howmanygpus.report.files import read_table
from howmanygpus.report.proposal import collect, draw, save


def main() -> None:
    request = read_request()
    plan, answer = (json.loads(path.read_text()) for path in (request.input.plan, request.input.facts))
    (predictions,) = map(read_table, request.input.predictions) if request.input.predictions else (None,)
    facts = collect(answer, *map(read_table, request.input.tables), plan["config"], predictions)
    with atomic_folder(request.output.folder) as partial:
        for suffix in ("md", "tex", "txt"):
            (partial / f"proposal.{suffix}").write_text(render_proposal(facts, suffix))
        if facts["curves"]:
            save(draw(facts), partial)
        for script in request.input.batch_script:
            (partial / script.name).write_text(script.read_text())


if __name__ == "__main__":
    main()
