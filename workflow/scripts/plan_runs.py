"""Write the complete specification of every planned run of a study, for the runs and for the tables."""

import argparse
import json
from pathlib import Path

from howmanygpus.files import write_json_atomic
from howmanygpus.plan.config.schema import study_defaults
from howmanygpus.plan.frameworks import FRAMEWORKS
from howmanygpus.plan.plan import Plan


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--request", type=json.loads, required=True, help="JSON: see howmanygpus.plan.plan.Study.request"
    )
    parser.add_argument("--plan", type=Path, required=True, help="JSON file to write")
    arguments = parser.parse_args()
    (study,) = Plan.from_request(arguments.request).studies.values()
    runs = {run.path: {"spec": study.spec(run), "unsupported": run.unsupported} for run in study.runs}
    plan = {"study": study.name, "config": study.config, "curves": study.curves, "runs": runs}
    plan |= {"defaults": study_defaults()}
    plan |= {"machinery": {framework: FRAMEWORKS[framework].one_device for framework in study.config["frameworks"]}}
    write_json_atomic(arguments.plan, plan | {"billing": arguments.request.get("billing", {})})


if __name__ == "__main__":
    main()
