"""
Probe a node of one kind of device from inside a job, and compare the node with the machine file.

If runs cannot work there, the program prints its findings and fails, because everything that uses the device depends on
its record.
"""

import argparse
import json
import os
import sys
from pathlib import Path

from howmanygpus.base.environment import build_surroundings, parse_variable_names
from howmanygpus.files import write_json_atomic
from howmanygpus.site.jobs.ledger import PROBE, recorded, share_equally
from howmanygpus.site.node_check import inspect_node, judge


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", required=True, help="its name in the machine file")
    parser.add_argument("--expected", type=json.loads, required=True, help="JSON: what the machine file says of it")
    parser.add_argument("--studies", nargs="+", required=True, help="studies that share the bill of the probe")
    parser.add_argument("--record", type=Path, required=True, help="JSON file to write")
    arguments = parser.parse_args()
    size = {"device": arguments.device, "num_gpus": arguments.expected["devices_per_node"], "num_nodes": 1}
    shares = share_equally(arguments.studies)
    # What is found is what a run finds, which gets no other variables.
    surroundings = build_surroundings(os.environ, parse_variable_names(arguments.expected["scratch"] or ""))
    os.environ.clear()
    os.environ.update(surroundings)
    with recorded(PROBE, arguments.device, size, arguments.expected["packed"], shares=shares):
        found = inspect_node(arguments.expected, arguments.record.parent)
    findings = judge(found, arguments.expected)
    told = [f"{arguments.device}: {finding['level']}: {finding['text']}" for finding in findings]
    if any(finding["level"] == "error" for finding in findings):
        # The list is the last message of the log, which is shown.
        print(json.dumps(found, indent=1), f"{arguments.device}: found on this node:", sep="\n")
        print(*(f"  {line}" for line in told), sep="\n", flush=True)
        sys.exit(
            f"{arguments.device}: runs would end in these errors, so that none is started; correct the machine file or "
            "the study as each error says, and give the same call again"
        )
    print(*told, sep="\n")
    write_json_atomic(arguments.record, {"device": arguments.device, "found": found, "findings": findings})


if __name__ == "__main__":
    main()
