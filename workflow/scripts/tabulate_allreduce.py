"""Put what the preflight measured on some devices into one table."""

import argparse
import json
from pathlib import Path

from benchreport.allreduce import tabulate
from benchreport.tables import write_table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=Path, nargs="*", required=True)
    parser.add_argument("--allreduce", type=Path, required=True, help="table to write")
    arguments = parser.parse_args()
    write_table(arguments.allreduce, tabulate([json.loads(path.read_text()) for path in arguments.records]))


if __name__ == "__main__":
    main()
