"""Write what Snakemake's process has planned or decided about a study, for its tables and its answer."""

import json
from pathlib import Path

from howmanygpus.base.requests import read_request
from howmanygpus.base.secrets import hide_everywhere
from howmanygpus.files import write_json_atomic


def main() -> None:
    request = read_request()
    planned = json.loads(Path(request.values.planned).read_text())
    write_json_atomic(request.output.record, hide_everywhere(planned))


if __name__ == "__main__":
    main()
