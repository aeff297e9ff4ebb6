"""List in one file every record of a study's runs and attempts with its hash, or the jobs that concern the study.

Jobs are those that used devices. Their records are completed first.
"""

import argparse
from pathlib import Path

from howmanygpus.files import sha256_of_file, write_json_atomic
from howmanygpus.ledger.recording import RUN
from howmanygpus.ledger.settling import settle_jobs

RUNS, ATTEMPTS = Path("results/runs"), Path("results/attempts")


def list_records(study: str) -> dict[str, str]:
    """Return the hash of each record by its path."""
    records = [*(RUNS / study).rglob("run.json"), *(ATTEMPTS / study).rglob("attempt.json")]
    return {str(path): sha256_of_file(path) for path in sorted(records)}


def list_jobs(study: str) -> dict[str, dict]:
    """Return the record of each job by its path. Jobs of other studies are part of an allocation that both share."""
    return {
        path: record
        for path, record in settle_jobs().items()
        if record["name"].startswith(f"{study}/")
        or (record["kind"] != RUN and study in record.get("shares", [study]))
        or record.get("job", {}).get("packed")
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", required=True)
    listed = parser.add_mutually_exclusive_group(required=True)
    listed.add_argument("--records", type=Path, help="JSON file to write: runs and attempts")
    listed.add_argument("--ledger", type=Path, help="JSON file to write: jobs")
    arguments = parser.parse_args()
    if arguments.records:
        write_json_atomic(arguments.records, list_records(arguments.study))
    else:
        write_json_atomic(arguments.ledger, list_jobs(arguments.study))


if __name__ == "__main__":
    main()
