"""Studies whose truth is known: records of runs that are computed from a model of what takes the time."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd

from helpers.records import make_attempt, make_run
from helpers.specs import make_spec
from helpers.stored_runs import QUALITY
from howmanygpus.measure.host.samples import COLUMNS as SAMPLES
from howmanygpus.report.files import read_table, write_table
from howmanygpus.report.tables import describe_table, load_table
from howmanygpus.study.runs import HOW

PROTOCOLS = {"first_epoch_inside": False, "eval_other_images": {}, "eval_batch_statistics": [], "own_augmentation": {}}
STEPS = 40
"""Measured steps of every run, in two windows."""
RESIDENT_INPUT, NO_EXCHANGE, NO_EVALUATION = "resident_input", "no_exchange", "no_evaluation"


@dataclass(frozen=True)
class Run:
    """One run as its truth sees it. control: what it leaves out, or empty."""

    num_gpus: int
    num_nodes: int
    per_device_batch_size: int
    repeat: int
    control: str = ""
    framework: str = "pytorch_ddp"
    variant: str = "base"
    input: str = "arrays"


def nothing(run: Run) -> float:
    return 0.0


def same(run: Run) -> float:
    return 1.0


def not_sampled(run: Run) -> list[str]:
    return []


@dataclass(frozen=True)
class Truth:
    """What takes the time of the runs of a study.

    compute_s: of a device for an image. straggle: factor of one process in each step, another one each time.
    worker_s: of a worker of the loader for an image, by the run; workers: of each device. exchange_s: of a step of
    several devices, by the run. slow: factor of each rank's computation. noise: relative standard deviation between
    repeats. factor: of all measured seconds of a run. status: of a run. startup_s, evaluation_s: of the whole run.
    is_timed: whether processes record their own seconds. one_process: whether one process drives all devices.
    changes: of run.json. telemetry: lines of telemetry.csv.
    """

    compute_s: float = 0.001
    straggle: float = 1.0
    worker_s: Callable[[Run], float] = nothing
    workers: int = 1
    exchange_s: Callable[[Run], float] = nothing
    slow: dict[int, float] = field(default_factory=dict)
    noise: float = 0.0
    seed: int = 0
    factor: Callable[[Run], float] = same
    status: Callable[[Run], str] = lambda run: "completed"
    startup_s: float = 1.0
    evaluation_s: Callable[[Run], float] = nothing
    is_timed: bool = True
    one_process: bool = False
    changes: Callable[[Run], dict] = lambda run: {}
    telemetry: Callable[[Run], list[str]] = not_sampled

    def time_step(self, run: Run, random: np.random.Generator) -> tuple[list[float], float, float]:
        """Return each rank's own seconds of a step, the seconds of the step, and its wait for input."""
        noise = 1 + self.noise * random.standard_normal()
        own = [self.compute_s * self.slow.get(rank, 1.0) * run.per_device_batch_size for rank in range(run.num_gpus)]
        exchange_s = self.exchange_s(run) if run.num_gpus > 1 and run.control != NO_EXCHANGE else 0.0
        factors = self.list_factors(run)
        together = self.straggle if run.num_gpus > 1 and run.control != NO_EXCHANGE else float(np.mean(factors))
        own = [seconds * float(np.mean(factors)) for seconds in own]
        busy_s = max(own) / float(np.mean(factors)) * together + exchange_s
        input_s = 0.0
        if run.control != RESIDENT_INPUT and run.input != "resident":
            input_s = self.worker_s(run) * run.per_device_batch_size / self.workers
        factor = noise * self.factor(run)
        wait_s = max(0.0, input_s - busy_s)
        return [factor * max(each, input_s) for each in own], factor * (busy_s + wait_s), factor * wait_s

    def list_factors(self, run: Run) -> list[float]:
        """Return the factors of a process's steps in a window of half the steps if it waits for no other."""
        period = run.num_gpus if run.num_gpus > 1 else STEPS
        return [self.straggle if step % period == 0 and run.num_gpus > 1 else 1.0 for step in range(STEPS // 2)]


@dataclass(frozen=True)
class Grid:
    """The planned runs of a study. nodes: numbers of nodes of a device count. controls: those of a run."""

    counts: tuple[int, ...] = (1, 8)
    batches: tuple[int, ...] = (32,)
    repeats: int = 5
    frameworks: tuple[str, ...] = ("pytorch_ddp",)
    variants: tuple[str, ...] = ("base",)
    inputs: tuple[str, ...] = ("arrays",)
    nodes: Callable[[int], tuple[int, ...]] = lambda count: (1,)
    controls: Callable[[Run], tuple[str, ...]] | None = None
    is_strong: bool = False
    diagnoses: bool = True
    precision: str = "fp32"
    kind: str = "cpu"

    def list_runs(self) -> list[Run]:
        own = [
            Run(count, nodes, size // count if self.is_strong else size, repeat, "", framework, variant, given)
            for framework in self.frameworks
            for variant in self.variants
            for given in self.inputs
            for size in self.batches
            for count in self.counts
            for nodes in self.nodes(count)
            for repeat in range(1, self.repeats + 1)
        ]
        controls = [
            replace(run, control=name, variant=f"control_{name}")
            for run in own
            if self.diagnoses and run.variant == self.variants[0]
            for name in (self.controls or self._list_controls)(run)
        ]
        as_resident = [replace(run, input="resident") if run.control == RESIDENT_INPUT else run for run in controls]
        return [*own, *dict.fromkeys(as_resident)]

    def _list_controls(self, run: Run) -> tuple[str, ...]:
        """Those that `diagnose: true` plans: on both ends, without exchange only on several devices."""
        if run.num_gpus not in (min(self.counts), max(self.counts)):
            return ()
        resident = (RESIDENT_INPUT,) if run.input != "resident" else ()
        return (*resident, *((NO_EXCHANGE,) if run.num_gpus > 1 else ()), NO_EVALUATION)

    def make_spec(self, run: Run, workers: int):
        return make_spec(
            framework=run.framework,
            variant=run.variant,
            input=run.input,
            num_gpus=run.num_gpus,
            num_nodes=run.num_nodes,
            global_batch_size=run.per_device_batch_size * run.num_gpus,
            repeat=run.repeat,
            seed=run.repeat,
            loader_workers=workers,
            cores_per_device=4,
            precision=self.precision,
            device_kind=self.kind,
        )


def store(folder: Path, truth: Truth, grid: Grid) -> dict:
    """Store the records of a study below a folder, and return its plan."""
    random, runs, named = np.random.default_rng(truth.seed), {}, {}
    for number, run in enumerate(grid.list_runs()):
        spec, path = grid.make_spec(run, truth.workers), f"run{number}"
        runs[path] = {"spec": spec.to_dict(), "unsupported": ""}
        if run.control:
            named[path] = {"control": run.control}
        status = truth.status(run)
        if status == "unsupported":
            runs[path]["unsupported"] = "it cannot leave the exchange out"
        elif status == "completed":
            store_run(folder / "results" / "runs" / path, truth, run, spec, random)
        elif status in ("out_of_memory", "diverged"):
            place = folder / "results" / "runs" / path
            place.mkdir(parents=True)
            record = make_run(spec, status, reason=f"why {status}")
            (place / "run.json").write_text(json.dumps(record))
            (place / "events.jsonl").write_text("")
            np.savez(place / "predictions.npz", rank=np.empty((0, 10), np.uint16))
        elif status == "crashed":
            place = folder / "results" / "attempts" / path / "20260101T000000-1"
            place.mkdir(parents=True)
            (place / "attempt.json").write_text(json.dumps(make_attempt(spec, status)))
    sizes = list(grid.batches)
    config = {"num_nodes": None, "optimizer": {"by_framework": {}}, "variants": {name: {} for name in grid.variants}}
    if len({nodes for count in grid.counts for nodes in grid.nodes(count)}) > 1:
        config["num_nodes"] = [1, 2]
    config |= {"model": "small_cnn", "diagnose": grid.diagnoses, "quality": QUALITY, "protocols": PROTOCOLS}
    curves = {"strong" if grid.is_strong else "weak": sizes}
    plan = {"study": "s", "config": config, "runs": runs, "billing": {}, "defaults": {}, "how": HOW}
    return plan | {"protocols": named, "curves": curves, "machinery": {}}


def store_run(folder: Path, truth: Truth, run: Run, spec, random: np.random.Generator) -> None:
    """Store a run with a first step, a warm-up of two steps, and two measured windows."""
    own, step_s, wait_s = truth.time_step(run, random)

    def waits(steps: int) -> float | None:
        return None if run.input == "program" else steps * wait_s

    evaluation_s = 0.0 if run.control or run.input == "resident" else truth.evaluation_s(run)
    measured_s, half = STEPS * step_s, STEPS // 2
    clocks = {"init_s": truth.startup_s, "compile_s": 0.5, "warmup_s": 2 * step_s, "measured_s": measured_s}
    clocks |= {"measured_steps": STEPS, "data_wait_s": waits(STEPS), "train_s": 2 * step_s + measured_s}
    clocks |= {"eval_s": evaluation_s, "steps": STEPS + 3, "images_seen": (STEPS + 3) * spec.global_batch_size}
    clocks["wall_time_s"] = truth.startup_s + 0.5 + 2 * step_s + measured_s + evaluation_s + 0.01
    loader_s = truth.worker_s(run) if run.input not in ("resident", "program") else 0.0
    processes = [
        {"rank": rank, "hostname": f"n{1 + rank * run.num_nodes // run.num_gpus}"}
        | ({"measured_s": STEPS * seconds, "data_wait_s": 0.0} if truth.is_timed else {})
        for rank, seconds in enumerate(own)
    ]
    if run.control != NO_EXCHANGE:
        processes = [process | ({"measured_s": measured_s} if truth.is_timed else {}) for process in processes]
    if truth.one_process:
        processes = processes[:1]
    more = {"loader_s_per_image": loader_s or None, "processes": processes, "num_processes": len(processes)}
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(make_run(spec, **{**clocks, **more, **truth.changes(run)})))
    window = {
        "event": "window",
        "wall_s": 10.0,
        "epoch": 1,
        "loss": 2.0,
        "num_steps": half,
        "data_wait_s": waits(half),
    }
    window |= {"elapsed_s": half * step_s, "steps_s": [step_s] * half, "phase": "train"}
    if run.control == NO_EXCHANGE:
        factors = np.array(truth.list_factors(run))
        window["steps_s"] = list(step_s * factors / factors.mean())
    first = window | {"phase": "compile", "num_steps": 1, "elapsed_s": 0.5, "steps_s": [0.5], "first_step": 1}
    events = [first, window | {"first_step": 4}, window | {"first_step": 4 + half, "wall_s": 20.0}]
    (folder / "events.jsonl").write_text("\n".join(map(json.dumps, events)))
    np.savez(folder / "predictions.npz", rank=np.empty((0, 10), np.uint16), loss=np.empty((0, 10), np.float32))
    (folder / "telemetry.csv").write_text("\n".join([",".join(SAMPLES), *truth.telemetry(run)]))


def make_tables(folder: Path, truth: Truth, grid: Grid, allreduces: tuple[dict, ...] = ()) -> dict:
    """Store a study and make its tables as the workflow does. Each is written and read."""
    plan = store(folder, truth, grid)
    # Nothing is evaluated, and losses explain no rate.
    empty = ["losses", "evaluations", *(["utilisation"] if truth.telemetry is not_sampled else [])]
    made: dict = {name: pd.DataFrame(columns=list(load_table(name).COLUMNS)) for name in empty}
    made |= {"results": folder, "allreduces": list(allreduces), "decision": None}
    for name in ("runs", "scaling", "run_phases", "time_split", "ceilings", "utilisation", "explanations"):
        if name not in made:
            inputs = {each: made[each] for each in describe_table(name).reads}
            write_table(folder / f"{name}.tsv", load_table(name).tabulate(plan, **inputs))
            made[name] = read_table(folder / f"{name}.tsv")
    return made


def find_row(tables: dict, num_gpus: int, table: str = "explanations", **same):
    """Return the only row of a table at a device count."""
    rows = tables[table]
    chosen = rows["num_gpus"] == num_gpus
    for name, value in same.items():
        chosen &= rows[name] == value
    (row,) = rows[chosen].to_dict("records")
    return row
