"""Write the verdict on a cell of the parity gate that no study asks to check."""

import json

from howmanygpus.base.requests import read_request
from howmanygpus.files import write_json_atomic


def main() -> None:
    request = read_request()
    # See howmanygpus.study.gate_cells.ParityCell.request.
    cell = json.loads(request.values.cell)
    reason = "parity is off in every study that trains this"
    write_json_atomic(request.output.verdict, cell | {"status": "not_checked", "reason": reason, "checks": []})


if __name__ == "__main__":
    main()
