"""
What measuring costs: each backend's run, as the workflow starts it, against a bare loop of the same framework.

Pairs images/s of the measured windows of a real run (ResNet-44, 32x32 RGB, the launcher, the loop, telemetry,
prefetching and augmentation switched on) with images/s of benchmarks/bare/<framework>.py, which its own users could
have written, on the same cores, in turn. A ratio of 1 means that the harness costs nothing.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from reporting import LIBRARY, ROOT, write_benchmark

# isort: split
from benchplan.frameworks import FRAMEWORKS
from benchplan.runs import Run, complete_spec
from benchreport.runs import describe_timing
from trainbench.processes import list_cores

WARMUP_STEPS = 10
SHAPE = {"image_shape": [32, 32, 3], "num_classes": 10, "num_train": 4096, "num_test": 16}


def prepare(folder: Path) -> None:
    """Random images and initial weights, made by the workflow's own scripts."""
    options = ["--source", "synthetic", "--options", json.dumps(SHAPE), "--folder", str(folder / "data")]
    run_script("prepare_arrays", *options)
    shape = ["--image-shape", "32", "32", "3", "--num-classes", "10", "--seed", "1"]
    run_script("initialize_weights", "--model", "resnet44", *shape, "--weights", str(folder / "weights.safetensors"))


def run_script(name: str, *options: str) -> None:
    environment = os.environ | {"PYTHONPATH": str(LIBRARY)}
    script = str(ROOT / "workflow" / "scripts" / f"{name}.py")
    subprocess.run([sys.executable, script, *options], env=environment, cwd=ROOT, check=True)


def find_python(framework: str, folder: Path) -> str:
    name, record = FRAMEWORKS[framework].environments["cpu"], folder / "environment.json"
    run_script(
        *("build_environment", "--name", name, "--pins", f"envs/{name}.txt", "envs/measured.txt"),
        *("--record", str(record)),
    )
    return json.loads(record.read_text())["python"]


def measure_run(framework: str, python: str, folder: Path, num_devices: int, batch_size: int, num_steps: int) -> float:
    """images/s of a run through the launcher."""
    run = Run.from_path(f"cost/{framework}/base/synthetic_fp32_cpu_gpus{num_devices}_batch{batch_size}_repeat1")
    settings = {
        "dataset": "noise",
        "model": "resnet44",
        "steps": WARMUP_STEPS + num_steps,
        "warmup_steps": WARMUP_STEPS,
    }
    settings |= {"random_flip": True, "random_crop_padding": 4, "optimizer": {"learning_rate": 0.01}}
    spec = complete_spec(run, settings, str(folder / "data"), str(folder / "weights.safetensors"))
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        attempt, run_dir = Path(scratch) / "attempt", Path(scratch) / "run"
        attempt.mkdir()
        (attempt / "spec.json").write_text(json.dumps(spec))
        options = ["--attempt", str(attempt), "--run-dir", str(run_dir), "--deadline-s", "600"]
        environment = os.environ | {"PYTHONPATH": str(LIBRARY)}
        command = [python, "-m", "trainbench.launch", *options]
        subprocess.run(command, env=environment, check=True, capture_output=True)
        record = json.loads((run_dir / "run.json").read_text())
        events = [json.loads(line) for line in (run_dir / "events.jsonl").read_text().splitlines()]
    return describe_timing(record, events)["images_per_s"]


def measure_bare(framework: str, python: str, folder: Path, num_devices: int, batch_size: int, num_steps: int) -> float:
    """images/s that the bare loop prints."""
    command = [python]
    if FRAMEWORKS[framework].launcher == "torchrun":
        command += ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={num_devices}"]
    command += [str(ROOT / "benchmarks" / "bare" / f"{framework}.py"), str(folder / "data")]
    command += [str(number) for number in (batch_size, WARMUP_STEPS, num_steps, num_devices)]
    environment = os.environ | {"PYTHONPATH": str(LIBRARY), "OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "1"}
    cores = list_cores()[:num_devices]
    result = subprocess.run(
        command,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
    )
    return float(result.stdout.strip().splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frameworks", nargs="+", default=list(FRAMEWORKS), choices=list(FRAMEWORKS))
    parser.add_argument("--num-devices", type=int, default=1, help="CPU devices of one core each (default 1)")
    parser.add_argument("--batch-size", type=int, default=32, help="images per device (default 32)")
    parser.add_argument("--steps", type=int, default=40, help="measured steps (default 40)")
    parser.add_argument("--pairs", type=int, default=5, help="runs of each, in turn (default 5)")
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        prepare(folder)
        for framework in arguments.frameworks:
            python = find_python(framework, folder)
            request = (framework, python, folder, arguments.num_devices, arguments.batch_size, arguments.steps)
            pairs = []
            for _ in range(arguments.pairs):
                pairs.append((measure_run(*request), measure_bare(*request)))
                print(
                    f"{framework}: run {pairs[-1][0]:.1f}, bare {pairs[-1][1]:.1f} images/s",
                    file=sys.stderr,
                    flush=True,
                )
            ratios = sorted(run / bare for run, bare in pairs)
            rows.append(
                {
                    "framework": framework,
                    "num_devices": arguments.num_devices,
                    "run_images_per_s": statistics.median(run for run, _ in pairs),
                    "bare_images_per_s": statistics.median(bare for _, bare in pairs),
                    "ratio_median": statistics.median(ratios),
                    "ratio_min": ratios[0],
                    "ratio_max": ratios[-1],
                    "pairs": len(ratios),
                }
            )
    write_benchmark("harness_cost", rows)


if __name__ == "__main__":
    main()
