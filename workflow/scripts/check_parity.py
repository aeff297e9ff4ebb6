"""Judge a framework's work on the task of one cell of the parity gate, and write the verdict."""

import json

from howmanygpus.base.requests import read_request
from howmanygpus.files import write_json_atomic
from howmanygpus.gate.judge import Comparison, OwnComparison, judge


def read_layout(text: str) -> tuple[int, int]:
    """Read the numbers of devices and of nodes from text such as 2x1."""
    devices, _, nodes = text.partition("x")
    return int(devices), int(nodes)


def main() -> None:
    request = read_request()
    # See howmanygpus.study.gate_cells.ParityCell.request.
    cell = json.loads(request.values.cell)
    observed, reference, strict = request.input.observed, request.input.reference, request.input.strict
    unsupported = json.loads(observed.read_text())["unsupported"]
    if unsupported:
        verdict = {"status": "unsupported", "reason": unsupported, "checks": []}
    else:
        seen, key = observed.with_suffix(""), request.values.key
        work = {read_layout(layout): seen / layout / key for layout in request.values.layouts}
        required = json.loads(strict.read_text()) if strict else None
        is_own = json.loads(reference.read_text()).get("own_model", False)
        verdict = judge(work, reference.parent, required, OwnComparison if is_own else Comparison)
    write_json_atomic(request.output.verdict, cell | verdict | {"observed": str(observed)})
    print(f"{cell['framework']}: {verdict['status']} {verdict['reason']}")


if __name__ == "__main__":
    main()
