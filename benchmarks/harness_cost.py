"""
Measure the cost of the harness: a run as the workflow starts it against a bare loop of the same framework.

A real run (ResNet-44, 32x32 RGB, with launcher, loop, telemetry, prefetching and augmentation) and
benchmarks/bare/<framework>.py, which users of the framework could have written, train side by side, each on its own
cores; then again with the cores exchanged. The result is images/s of the run's measured windows over images/s of the
bare loop in the same seconds, so that drift of the machine and differences between its cores cancel. A ratio of 1 means
that the harness costs nothing.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import numpy as np
import psutil

from preparing import prepare, resolve_python
from reporting import LIBRARY, ROOT, write_benchmark

# isort: split
from howmanygpus.measure.host.processes import die_with_parent, list_cores, stop_process_tree
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.report.tables.runs import describe_timing
from howmanygpus.study.runs import Run, complete_spec

WARMUP_STEPS = 10
REPORT_STEPS = 4


@contextmanager
def bare_loop(framework: str, python: str, folder: Path, cores: list[int], batch_size: int, memory: dict[str, str]):
    """Run a bare loop in the background; yields the file to which it writes (time of day, images so far).

    memory: environment variables of malloc.
    """
    num_devices, mpirun = len(cores), str(Path(python).with_name("mpirun"))
    command = {
        **{key: [python] for key in ("plain", "per_node", "per_device")},
        "horovodrun": [str(Path(python).with_name("horovodrun")), "-np", str(num_devices), "--gloo", python],
        "mpirun": [mpirun, "-np", str(num_devices), "--bind-to", "none", "--map-by", ":OVERSUBSCRIBE", python],
    }[FRAMEWORKS[framework].launcher]
    if framework == "pytorch_ddp":
        command += ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={num_devices}"]
    command += [str(ROOT / "benchmarks" / "bare" / f"{framework}.py"), str(folder / "data")]
    command += [str(number) for number in (batch_size, REPORT_STEPS, num_devices)]
    environment = os.environ | {"PYTHONPATH": str(LIBRARY), "OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "1"}
    environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **memory}
    reports, log = folder / "reports.txt", folder / "bare.log"

    def prepare_child() -> None:
        os.sched_setaffinity(0, cores)
        die_with_parent()

    with open(reports, "w") as output, open(log, "w") as errors:
        process = psutil.Popen(
            command,
            env=environment,
            stdout=output,
            stderr=errors,
            preexec_fn=prepare_child,
        )
        try:
            while not reports.stat().st_size:
                if process.poll() is not None:
                    sys.exit(f"the bare loop of {framework} ended:\n{log.read_text()}")
                time.sleep(0.2)
            yield reports
        finally:
            stop_process_tree(process, 5.0)


def read_reports(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return times of day, and the number of images that the bare loop had trained by then."""
    lines = path.read_text().splitlines(keepends=True)
    # horovodrun puts the process before each line.
    said = [line.rpartition("<stdout>:")[2].split() for line in lines if line[-1] == "\n"]
    times, images = np.array(said, float).T
    return times, images


def run_once(
    framework: str,
    python: str,
    folder: Path,
    cores: list[int],
    batch_size: int,
    num_steps: int,
    placement: dict | None = None,
    **changes,
):
    """Start one run by the launcher; returns its record and events.

    placement: see howmanygpus.measure.host.placement. changes: of the settings.
    """
    cell = f"synthetic_fp32_cpu_gpus{len(cores)}_batch{batch_size}_repeat1"
    settings = {
        "dataset": "noise",
        "model": "resnet44",
        "steps": WARMUP_STEPS + num_steps,
        "warmup_steps": WARMUP_STEPS,
    }
    settings |= {"random_flip": True, "random_crop_padding": 4, "optimizer": {"learning_rate": 0.01}}
    settings |= changes
    run = Run.from_path(f"cost/{framework}/base/{cell}")
    spec = complete_spec(run, settings, str(folder / "data"), str(folder / "weights.safetensors"))
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        attempt, run_dir = Path(scratch) / "attempt", Path(scratch) / "run"
        attempt.mkdir()
        (attempt / "spec.json").write_text(json.dumps(spec))
        (attempt / "placement.json").write_text(json.dumps(placement or {}))
        options = ["--attempt", str(attempt), "--run-dir", str(run_dir), "--deadline-s", "900"]
        subprocess.run(
            [python, "-m", "howmanygpus.measure.launch.launch", *options],
            env=os.environ | {"PYTHONPATH": str(LIBRARY)},
            check=True,
            capture_output=True,
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
        )
        record = json.loads((run_dir / "run.json").read_text())
        return record, [json.loads(line) for line in (run_dir / "events.jsonl").read_text().splitlines()]


def measure(framework: str, python: str, folder: Path, cores: list[list[int]], batch_size: int, num_steps: int):
    """Return images/s of a run on cores[0] and of the bare loop on cores[1] in the same seconds."""
    with bare_loop(framework, python, folder, cores[1], batch_size, {}) as reports:
        record, events = run_once(framework, python, folder, cores[0], batch_size, num_steps)
        times, images = read_reports(reports)
    started = datetime.fromisoformat(record["started_at"]).timestamp()
    windows = [event for event in events if event["event"] == "window" and event["phase"] == "train"]
    begin, end = started + windows[0]["wall_s"] - windows[0]["elapsed_s"], started + windows[-1]["wall_s"]
    bare_images = np.interp(end, times, images) - np.interp(begin, times, images)
    return describe_timing(record, events)["images_per_s"], bare_images / (end - begin)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    bare = [name for name in FRAMEWORKS if (ROOT / "benchmarks" / "bare" / f"{name}.py").exists()]
    parser.add_argument("--frameworks", nargs="+", default=bare, choices=bare)
    parser.add_argument("--num-devices", type=int, default=1, help="CPU devices of one core each (default 1)")
    parser.add_argument("--batch-size", type=int, default=32, help="images per device (default 32)")
    parser.add_argument("--steps", type=int, default=80, help="measured steps (default 80)")
    parser.add_argument("--pairs", type=int, default=3, help="pairs, each with the cores both ways (default 3)")
    arguments = parser.parse_args()
    cores, rows = list_cores(), []
    if len(cores) < 2 * arguments.num_devices:
        parser.error(f"--num-devices {arguments.num_devices} needs {2 * arguments.num_devices} cores, not {len(cores)}")
    sides = [cores[: arguments.num_devices], cores[arguments.num_devices : 2 * arguments.num_devices]]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        prepare(folder)
        for framework in arguments.frameworks:
            python, measured = resolve_python(framework), []
            for _ in range(arguments.pairs):
                for order in (sides, sides[::-1]):
                    options = (arguments.batch_size, arguments.steps)
                    measured.append(measure(framework, python, folder, order, *options))
                    print(
                        f"{framework}: run {measured[-1][0]:.1f}, bare {measured[-1][1]:.1f} images/s", file=sys.stderr
                    )
            halves = [run / bare for run, bare in measured]
            ratios = sorted(math.sqrt(one * other) for one, other in zip(halves[::2], halves[1::2], strict=True))
            rows.append(
                {
                    "framework": framework,
                    "num_devices": arguments.num_devices,
                    "run_images_per_s": statistics.median(run for run, _ in measured),
                    "bare_images_per_s": statistics.median(bare for _, bare in measured),
                    "ratio_median": statistics.median(ratios),
                    "ratio_min": ratios[0],
                    "ratio_max": ratios[-1],
                    "pairs": len(ratios),
                }
            )
    write_benchmark("harness_cost", rows)


if __name__ == "__main__":
    main()
