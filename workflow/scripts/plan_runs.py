"""Write the complete specification of every planned run of a study, for the runs and for the tables."""

import argparse
import json
from pathlib import Path

from howmanygpus.files import write_json_atomic
from howmanygpus.plan.plan import Plan


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--request", type=json.loads, required=True, help="JSON: see howmanygpus.plan.plan.Study.request"
    )
    parser.add_argument("--plan", type=Path, required=True, help="JSON file to write")
    arguments = parser.parse_args()
    (study,) = Plan.from_request(arguments.request).studies.values()
    write_json_atomic(arguments.plan, study.describe() | {"billing": arguments.request.get("billing", {})})


if __name__ == "__main__":
    main()
