"""Judge a framework's work on the task of one cell of the parity gate, and write the verdict."""

import argparse
import json
from pathlib import Path

from howmanygpus.files import write_json_atomic
from howmanygpus.gate.judge import Comparison, OwnComparison, judge


def read_layout(text: str) -> tuple[int, int]:
    """Read the numbers of devices and of nodes from text such as 2x1."""
    devices, _, nodes = text.partition("x")
    return int(devices), int(nodes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cell", type=json.loads, required=True, help="JSON: see study.gate_cells.ParityCell.describe")
    parser.add_argument("--key", required=True, help="name of the cell among the observations")
    parser.add_argument("--layouts", nargs="+", required=True, help="devices x nodes, such as 2x1")
    parser.add_argument("--reference", type=Path, required=True, help="reference.json in the folder of the task")
    parser.add_argument("--observed", type=Path, required=True, help="record of the observations, which lie beside it")
    parser.add_argument(
        "--strict", type=Path, nargs="?", help="verdict in fp32 without compression that must be passed"
    )
    parser.add_argument("--verdict", type=Path, required=True, help="JSON file to write")
    arguments = parser.parse_args()
    cell, unsupported = arguments.cell, json.loads(arguments.observed.read_text())["unsupported"]
    if unsupported:
        verdict = {"status": "unsupported", "reason": unsupported, "checks": []}
    else:
        seen = arguments.observed.with_suffix("")
        observed = {read_layout(layout): seen / layout / arguments.key for layout in arguments.layouts}
        strict = json.loads(arguments.strict.read_text()) if arguments.strict else None
        is_own = json.loads(arguments.reference.read_text()).get("own_model", False)
        verdict = judge(observed, arguments.reference.parent, strict, OwnComparison if is_own else Comparison)
    write_json_atomic(arguments.verdict, cell | verdict | {"observed": str(arguments.observed)})
    print(f"{cell['framework']}: {verdict['status']} {verdict['reason']}")


if __name__ == "__main__":
    main()
