"""Write the complete specification of every planned run of a study, for the runs and for the tables."""

import argparse
import json
from pathlib import Path

from howmanygpus.files import write_json_atomic
from howmanygpus.plan.plan import Plan
from howmanygpus.surroundings.secrets import hide_everywhere


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--request", type=json.loads, required=True, help="JSON: see howmanygpus.plan.plan.Study.request"
    )
    parser.add_argument(
        "--stale", type=Path, nargs="?", help="JSON: why runs that exist are stale, for the target `available`"
    )
    parser.add_argument("--plan", type=Path, required=True, help="JSON file to write")
    arguments = parser.parse_args()
    (study,) = Plan.from_request(arguments.request).studies.values()
    plan = study.describe() | {"billing": arguments.request.get("billing", {})}
    stale = json.loads(arguments.stale.read_text()) if arguments.stale else {}
    write_json_atomic(arguments.plan, hide_everywhere(plan | {"stale": stale}))


if __name__ == "__main__":
    main()
