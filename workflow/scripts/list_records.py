"""List every record of a study's runs and attempts with its hash. The list changes if any record changes."""

import argparse
from pathlib import Path

from howmanygpus.files import sha256_of_file, write_json_atomic

RUNS, ATTEMPTS = Path("results/runs"), Path("results/attempts")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--study", required=True)
    parser.add_argument("--records", type=Path, required=True, help="JSON file to write")
    arguments = parser.parse_args()
    records = [*(RUNS / arguments.study).rglob("run.json"), *(ATTEMPTS / arguments.study).rglob("attempt.json")]
    write_json_atomic(arguments.records, {str(path): sha256_of_file(path) for path in sorted(records)})


if __name__ == "__main__":
    main()
