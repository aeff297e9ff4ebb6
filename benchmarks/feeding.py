"""
Measure what prefetching gains if the input takes as long as a step.

ResNet-44 on 32x32 RGB trains on an input that sleeps as long as a step took right before, with prefetch and without in
turn, in the same process. The result is steps per second with prefetch over steps per second without: 2 if input and
step overlap completely, 1 if they take turns. The loop waits for the devices after each step, like a program that reads
its loss. JAX and MXNet only enqueue a step, on CPUs too: without this wait (--window-steps 12), they load the next
batch during the step even without prefetch.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from preparing import prepare, resolve_python
from reporting import LIBRARY, ROOT, write_benchmark

# isort: split
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.study.runs import Run, complete_spec

WARMUP_STEPS = 3


def measure(framework: str, folder: Path, options: argparse.Namespace) -> list[dict]:
    """Return the pairs of one framework, as sleeping_input.py measured them."""
    cell = f"synthetic_fp32_cpu_gpus{options.num_devices}_batch{options.batch_size}_repeat1"
    settings = {"dataset": "noise", "model": "resnet44", "steps": WARMUP_STEPS + options.steps}
    settings |= {"warmup_steps": WARMUP_STEPS, "window_steps": options.window_steps, "prefetch": options.prefetch}
    settings |= {"optimizer": {"learning_rate": 0.01}}
    run = Run.from_path(f"feeding/{framework}/base/{cell}")
    own = folder / framework
    own.mkdir()
    spec = complete_spec(run, settings, str(folder / "data"), str(folder / "weights.safetensors"))
    (own / "spec.json").write_text(json.dumps(spec))
    command = [resolve_python(framework), "-m", "sleeping_input", "start", "--spec", str(own / "spec.json")]
    command += ["--pairs", str(options.pairs), "--folder", str(own)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(LIBRARY), str(ROOT / "benchmarks")])}
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{framework} ended:\n{result.stdout}{result.stderr}")
    return json.loads((own / "measured.json").read_text())["pairs"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frameworks", nargs="+", default=list(FRAMEWORKS), choices=list(FRAMEWORKS))
    parser.add_argument("--num-devices", type=int, default=1, help="CPU devices of one core each (default 1)")
    parser.add_argument("--batch-size", type=int, default=8, help="images per device (default 8)")
    parser.add_argument("--prefetch", type=int, default=2, help="batches ahead, against none (default 2)")
    parser.add_argument("--steps", type=int, default=12, help="measured steps of each training (default 12)")
    parser.add_argument("--window-steps", type=int, default=1, help="steps between two waits (default 1)")
    parser.add_argument("--pairs", type=int, default=5, help="pairs of trainings (default 5)")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        prepare(Path(scratch))
        for framework in options.frameworks:
            pairs = measure(framework, Path(scratch), options)
            step_s = {name: statistics.median(pair[name] for pair in pairs) for name in pairs[0]}
            ratios = sorted(pair["without"] / pair["ahead"] for pair in pairs)
            rows.append(
                {
                    "framework": framework,
                    "num_devices": options.num_devices,
                    "window_steps": options.window_steps,
                    "prefetch": options.prefetch,
                    "step_s": step_s["step"],
                    "step_s_without": step_s["without"],
                    "step_s_with": step_s["ahead"],
                    "ratio_median": statistics.median(ratios),
                    "ratio_min": ratios[0],
                    "ratio_max": ratios[-1],
                    "pairs": len(ratios),
                }
            )
            print(f"{framework}: {rows[-1]['ratio_median']:.2f}", file=sys.stderr)
    write_benchmark("feeding", rows)


if __name__ == "__main__":
    main()
