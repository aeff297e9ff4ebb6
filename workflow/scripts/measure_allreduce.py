"""Measure the all-reduce of some devices, without training anything on them."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file

from howmanygpus.base.environment import build_surroundings
from howmanygpus.files import write_json_atomic
from howmanygpus.prepare.weights import count_gradient_bytes
from howmanygpus.report.network import describe_findings
from howmanygpus.site.environments.find import find_launcher
from howmanygpus.site.jobs.ledger import ALLREDUCE, is_packed, list_nodes, recorded, share_equally
from howmanygpus.site.network import describe_exchange


def describe_gradients(path: Path) -> list[str] | None:
    """Return the options that say how many bytes are exchanged, and how; None if a program did not report it.

    path: record of initial weights, or of a run of a program. Gradients are taken to be float32.
    """
    record = json.loads(path.read_text())
    if "spec" not in record:
        return ["--bytes", str(count_gradient_bytes(load_file(path.with_suffix(".safetensors"))))]
    reported = record.get("reported", {})
    if "parameters" not in reported:
        return None
    return ["--bytes", str(4 * reported["parameters"]), *(["--sharded"] if reported.get("sharded") else [])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", required=True, help="JSON: see howmanygpus.measure.allreduce")
    parser.add_argument("--num-devices", type=int, required=True)
    parser.add_argument("--num-nodes", type=int, required=True)
    parser.add_argument("--placement", required=True, help="JSON: see howmanygpus.measure.host.placement")
    parser.add_argument("--studies", nargs="+", required=True, help="studies that share the bill of the measurement")
    parser.add_argument("--environment", type=Path, required=True, help="record of PyTorch's environment")
    parser.add_argument(
        "--weights",
        type=Path,
        help="record of initial weights, or of a run whose program reports its parameters: sum as many bytes",
    )
    parser.add_argument("--link", type=json.loads, required=True, help="JSON: `link_gb_per_s` of the machine file")
    parser.add_argument("--judge", choices=["report", "refuse"], required=True, help="what a slow network leads to")
    parser.add_argument("--record", type=Path, required=True, help="JSON file to write")
    arguments = parser.parse_args()
    size = {"num_gpus": arguments.num_devices, "num_nodes": arguments.num_nodes}
    given = json.loads(arguments.device)
    device = given["device"]
    python, placement = find_launcher(arguments.environment, json.loads(arguments.placement))
    packed, shares = is_packed(placement), share_equally(arguments.studies)
    with (
        recorded(ALLREDUCE, arguments.record.stem, {"device": device, **size}, packed, shares=shares) as job,
        tempfile.TemporaryDirectory(prefix=".measured-", dir=arguments.record.parent) as folder,
    ):
        nodes = list_nodes(job)
        command = [
            python,
            "-m",
            "howmanygpus.measure.allreduce",
            "--device",
            arguments.device,
        ]
        command += ["--num-devices", str(size["num_gpus"]), "--num-nodes", str(size["num_nodes"])]
        command += ["--placement", json.dumps(placement), "--folder", folder]
        options = describe_gradients(arguments.weights) if arguments.weights else []
        measured: dict[str, Any] = {"sizes": []}
        if options is not None:
            subprocess.run([*command, *options], env=build_surroundings(os.environ), check=True)
            measured = json.loads((Path(folder) / "allreduce.json").read_text())
            measured |= describe_exchange(Path(folder), given["device_kind"], arguments.num_nodes)
    whose = {"weights": arguments.weights.stem} if arguments.weights else {}
    record = {"device": device, **size, "nodes": nodes, **whose, **measured, "link_gb_per_s": arguments.link}
    texts = describe_findings(record)
    print(*texts, sep="\n", flush=True)
    if texts and arguments.judge == "refuse":
        sys.exit(
            f"judge_network: refuse: no run of {arguments.num_devices} x {device} is started, because: "
            f"{' '.join(texts)} Remedy it and give the same call again, or set `judge_network: report`"
        )
    write_json_atomic(arguments.record, record | {"findings": [{"level": "warning", "text": text} for text in texts]})


if __name__ == "__main__":
    main()
