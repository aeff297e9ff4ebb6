"""Complete the records of jobs that used devices, and list those that concern a study, in one file for its tables."""

import argparse
from pathlib import Path

from howmanygpus.files import write_json_atomic
from howmanygpus.site.jobs.ledger import RUN, complete_and_list_jobs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--study", required=True)
    parser.add_argument("--ledger", type=Path, required=True, help="JSON file to write")
    arguments = parser.parse_args()
    # Jobs of other studies are part of an allocation that this study shares with them.
    listed = {
        path: record
        for path, record in complete_and_list_jobs().items()
        if record["name"].startswith(f"{arguments.study}/")
        or (record["kind"] != RUN and arguments.study in record.get("shares", [arguments.study]))
        or record.get("job", {}).get("packed")
    }
    write_json_atomic(arguments.ledger, listed)


if __name__ == "__main__":
    main()
