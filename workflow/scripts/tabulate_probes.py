"""Make one table of the probes' findings on each kind of device."""

import argparse
import json
from pathlib import Path

from howmanygpus.report.files import write_table
from howmanygpus.report.pages.node_checks import tabulate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=Path, nargs="*", required=True, help="JSON files of the probes")
    parser.add_argument("--probes", type=Path, required=True, help="table to write")
    arguments = parser.parse_args()
    table = tabulate([json.loads(path.read_text()) for path in arguments.records])
    write_table(arguments.probes, table)
    for _, row in table[table["level"].isin(["error", "warning"])].iterrows():
        print(f"{row['device']}: {row['level']}: {row['value']}")


if __name__ == "__main__":
    main()
