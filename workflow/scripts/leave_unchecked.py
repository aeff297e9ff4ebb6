"""Write the verdict on a cell of the parity gate that no study asks to check."""

import argparse
import json
from pathlib import Path

from howmanygpus.files import write_json_atomic


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--cell", type=json.loads, required=True, help="JSON: see howmanygpus.study.gate_cells.ParityCell.request"
    )
    parser.add_argument("--verdict", type=Path, required=True, help="JSON file to write")
    arguments = parser.parse_args()
    reason = "parity is off in every study that trains this"
    write_json_atomic(arguments.verdict, arguments.cell | {"status": "not_checked", "reason": reason, "checks": []})


if __name__ == "__main__":
    main()
