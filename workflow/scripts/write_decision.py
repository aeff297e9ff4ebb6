"""Write the decision about the runs of a study, for its tables and its answer."""

import argparse
import json
from pathlib import Path

from howmanygpus.files import write_json_atomic


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decided", type=Path, required=True, help="JSON file that Snakemake's process left")
    parser.add_argument("--decision", type=Path, required=True, help="JSON file to write")
    arguments = parser.parse_args()
    write_json_atomic(arguments.decision, json.loads(arguments.decided.read_text()))


if __name__ == "__main__":
    main()
