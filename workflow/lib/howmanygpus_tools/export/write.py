"""Write records of runs for a tool, in the environment of the tool's library."""

import argparse
import json
from pathlib import Path

from howmanygpus.files import atomic_folder
from howmanygpus_tools.export import TOOLS, write


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", required=True, choices=sorted(TOOLS), help="the tool")
    parser.add_argument("--records", type=Path, required=True, help="JSON file with the records")
    parser.add_argument("--folder", type=Path, required=True, help="folder to write anew")
    arguments = parser.parse_args()
    with atomic_folder(arguments.folder) as partial:
        write(arguments.to, json.loads(arguments.records.read_text()), partial, arguments.folder)


if __name__ == "__main__":
    main()
