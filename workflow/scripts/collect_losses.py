"""Make the table of training losses in the first epoch of one study's runs."""

import argparse
import json
from pathlib import Path

from benchreport.losses import collect_losses
from benchreport.tables import write_table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plan", type=Path, required=True)
    parser.add_argument("--losses", type=Path, required=True, help="table to write: one row per window")
    arguments = parser.parse_args()
    write_table(arguments.losses, collect_losses(json.loads(arguments.plan.read_text())))


if __name__ == "__main__":
    main()
