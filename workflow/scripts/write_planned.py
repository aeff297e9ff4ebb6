"""Write what Snakemake's process has planned or decided about a study, for its tables and its answer."""

import argparse
import json
from pathlib import Path

from howmanygpus.base.secrets import hide_everywhere
from howmanygpus.files import write_json_atomic


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--planned", type=Path, required=True, help="JSON file that Snakemake's process left")
    parser.add_argument("--record", type=Path, required=True, help="JSON file to write")
    arguments = parser.parse_args()
    write_json_atomic(arguments.record, hide_everywhere(json.loads(arguments.planned.read_text())))


if __name__ == "__main__":
    main()
