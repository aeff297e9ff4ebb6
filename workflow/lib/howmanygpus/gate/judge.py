"""
Judge a framework for the parity gate: compare what it did with the task to the float64 reference.

Each check has a name, a value, a tolerance and the reason for the tolerance. The order of the checks matters: the first
check that fails is named as the cause, because the later failures follow from it.

For a user's own model the reference is the plain strategy of the family on one device, in float32, and not a float64
computation. It lacks what cannot be compared. Of a model that draws random numbers in training, it has only the norms
of gradients and updates, and the evaluations, each with how much other random numbers change it.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from howmanygpus.gate.allowances import (
    CHECKS,
    DRAWS_FACTOR,
    EVALUATIONS,
    MAX_NORM_RATIO,
    MIN_NOISE_RATIO,
    UNIT_ROUNDOFF,
    Allowances,
    dot,
    norm,
    norm_of_all,
)
from howmanygpus.gate.causes import name_cause
from howmanygpus.gate.coverage import describe_layout
from howmanygpus.gate.process import has_drifted, hash_batch
from howmanygpus.gate.task import (
    GLOBAL_BATCH_SIZE,
    NOISE,
    NORMS,
    NUM_TEST,
    OPTIMIZERS,
    SKIPPED_PREFIX,
    UNSUPPORTED,
    WEIGHTS,
    WINDOWS,
    has_noise,
    has_skipped_step,
)
from howmanygpus.measure.frameworks.number_formats import count_factors
from howmanygpus.measure.input.batches import TrainingBatches
from howmanygpus.measure.input.prepared import open_data
from howmanygpus.measure.loop.targets import read_targets
from howmanygpus.measure.models.initialization import is_trainable
from howmanygpus.measure.spec import RunSpec

COMPUTED_IN = {"fp32": "float32", "tf32": "float32", "bf16": "bfloat16", "fp16": "float16"}
"""Format of the results of products, by precision. TF32 rounds their operands alone."""
WAYS = {"activations": "forward", "backward": "backward"}
"""Passes of a training step, by the kind of numbers that products make in them."""
EXCHANGED = {"none": "float32", "fp16": "float16", "powersgd": "float32"}
"""Format in which gradients are exchanged, by compression."""
MIN_REMEMBERED = 0.01
"""Least part of earlier steps in PowerSGD's gradients, see NumberFormats.remembered.

Measured on CPUs, in convolutions and a dense layer with ranks from 1 to 4: 0.47 to 0.99, and without memory 1.3e-6
at most.
"""


@dataclass(frozen=True)
class Observation:
    """The files that the processes of one framework wrote about the task with one optimizer, by rank."""

    arrays: list[dict[str, np.ndarray]]
    facts: list[dict]

    @classmethod
    def read(cls, folder: Path, optimizer: str) -> "Observation":
        facts = [json.loads(path.read_text()) for path in sorted(folder.glob(f"{optimizer}.rank*.json"))]
        arrays = [load_file(folder / f"{optimizer}.rank{fact['rank']}.safetensors") for fact in facts]
        return cls(arrays, facts)

    def weights(self, moment: str) -> dict[str, np.ndarray]:
        """Return rank 0's weights at the moment `initial`, `first` or `final`."""
        return select(self.arrays[0], moment)

    def join(self, name: str) -> np.ndarray:
        return np.concatenate([arrays[name] for arrays in self.arrays])


def select(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(f"{prefix}/"): array for name, array in arrays.items() if name.startswith(f"{prefix}/")}


def compare(found: np.ndarray, expected: np.ndarray) -> float:
    """Return norm(found - expected) / norm(expected), infinite if shapes differ.

    Values that are not finite, such as those of a mask of -inf, must be the expected ones; otherwise it is infinite.
    """
    if found.shape != expected.shape:
        return float("inf")
    if not (is_finite := np.isfinite(expected)).all():
        if not np.array_equal(found[~is_finite], expected[~is_finite], equal_nan=True):
            return float("inf")
        found, expected = found[is_finite], expected[is_finite]
    if not np.isfinite(found).all():
        return float("inf")
    return norm(found - expected) / max(norm(expected), 1e-12)


class Comparison:
    """All checks of one framework on one layout, which is the numbers of devices and of nodes."""

    def __init__(self, folder: Path, task: Path, layout: tuple[int, int]):
        self.num_devices, self.num_nodes = layout
        self.task_weights = load_file(task / WEIGHTS)
        self.specs = {name: RunSpec.read(folder / f"{name}.spec.json") for name in OPTIMIZERS}
        self.data = open_data(task / "arrays", crop_size=self.specs["sgd"].crop_size)
        self.seen = {name: Observation.read(folder, name) for name in OPTIMIZERS}
        self.expected = {name: load_file(task / f"{name}.devices{self.num_devices}.safetensors") for name in OPTIMIZERS}
        for name, arrays in self.expected.items():
            if has_noise(self.specs[name]):
                arrays |= load_file(task / f"{name}.devices{self.num_devices}{NOISE}")
            if has_skipped_step(self.specs[name]):
                arrays |= select(arrays, SKIPPED_PREFIX.rstrip("/"))
        self.allowed = {name: Allowances(self.specs[name], self.expected[name]) for name in OPTIMIZERS}
        self.running_statistics = self.seen["sgd"].facts[0]["running_statistics"]
        self.suffix = {"mean of all devices": "mean", "first device": "first"}[self.running_statistics]
        self.rows: list[dict] = []
        self.not_compared: list[str] = []
        self.unjudged: dict[str, str] = {}

    def _add(self, check: str, value: float, tolerance: float, detail: str = "") -> None:
        # A value of nan fails, because every comparison with it is false.
        self.rows.append(
            {
                **{"devices": self.num_devices, "nodes": self.num_nodes, "check": check},
                **{"value": float(value) if np.isfinite(value) else None, "tolerance": float(tolerance)},
                **{"passed": bool(np.isfinite(value) and value <= tolerance), "detail": detail},
            }
        )

    def _add_worst(self, check: str, rows: list[tuple[float, float, str]]) -> None:
        """Add the row whose value is largest compared with its tolerance."""
        value, tolerance, detail = max(rows, key=lambda row: row[0] / row[1] if np.isfinite(row[0]) else np.inf)
        self._add(check, value, tolerance, detail)

    def run(self) -> list[dict]:
        self._check_weights()
        if self.rows[-1]["passed"]:
            self._check_numbers()
            self._check_exchange()
            self._check_evaluation()
            self._check_noise()
            self._check_batches()
            self._check_skipped()
            self._check_training()
            self._check_united()
            self._check_evaluations()
            self._check_replicas()
        return self.rows

    def _check_training(self) -> None:
        self._check_losses()
        self._check_changes()
        self._check_statistics()

    def _check_weights(self) -> None:
        found, expected, tolerance = self.seen["sgd"].weights("initial"), self.task_weights, self.allowed["sgd"].weights
        if found.keys() != expected.keys():
            missing = sorted(found.keys() ^ expected.keys())
            self._add("weights", float("inf"), tolerance, f"differ in {', '.join(missing[:5])}")
            return
        worst = max((compare(found[name], array), name) for name, array in expected.items())
        count = sum(array.size for name, array in found.items() if is_trainable(name))
        self._add("weights", worst[0], tolerance, f"{count} trainable parameters; {worst[1]}")

    def _check_evaluation(self) -> None:
        seen, tolerance = self.seen["sgd"], self.allowed["sgd"].of("logits")
        self._add("repeatable", compare(seen.join("logits_again"), seen.join("logits")), tolerance)
        kept = np.concatenate([arrays["logits"][arrays["kept"]] for arrays in seen.arrays])
        self._add("independent", compare(seen.join("logits_in_company"), kept), tolerance)
        self._add("evaluation", compare(seen.join("logits"), self.expected["sgd"]["logits"]), tolerance)

    def _check_numbers(self) -> None:
        """Check the formats of all kinds of numbers, and that no array's values fit a coarser format."""
        wrong: list[str] = []
        computed = COMPUTED_IN[self.specs["sgd"].precision]
        for optimizer, seen in self.seen.items():
            for fact in seen.facts:
                formats = fact["numbers"]["formats"]
                for kind, names in formats.items():
                    if kind not in WAYS:
                        wrong += [f"{optimizer}: {kind} in {name}" for name in names if name != "float32"]
                for kind, way in WAYS.items():
                    if not self._match_format(formats[kind], computed):
                        found = ", ".join(formats[kind]) or "unknown formats"
                        wrong.append(f"{optimizer}: products of the {way} pass in {found}")
                for kind, names in fact["numbers"]["coarse"].items():
                    wrong += [f"{optimizer}: {kind} rounded to half precision, {name}" for name in names]
        distinct = list(dict.fromkeys(wrong))
        self._add("numbers", len(distinct), 0, "; ".join(distinct[:3]))

    def _check_noise(self) -> None:
        """Check that reduced precision has left its trace in the logits: other formats may compute in more digits."""
        if self.specs["sgd"].precision == "fp32":
            return
        found = compare(self.seen["sgd"].join("logits"), self.expected["sgd"]["logits"])
        least = MIN_NOISE_RATIO * self._compute_simulated_noise()
        rows = [(least / max(found, 1e-30), 1.0, f"the logits differ by {found:.2g}, at least {least:.2g}")]
        if least_of_gradient := MIN_NOISE_RATIO * self._compute_gradient_noise():
            gradient, reference = self._compute_gradient()
            off = norm_of_all({name: gradient[name] - array for name, array in reference.items()})
            detail = f"the gradient differs by {off:.2g}, at least {least_of_gradient:.2g}"
            rows.append((least_of_gradient / max(off, 1e-30), 1.0, detail))
        self._add_worst("noise", rows)

    @staticmethod
    def name_cause(rows: list[dict]) -> str:
        """Return the likeliest cause of failed rows; empty, because a framework's own fault may be anything."""
        return ""

    @staticmethod
    def _match_format(formats: list[str], expected: str) -> bool:
        """Whether products are computed in the format of the precision. formats: the formats of all products."""
        return formats == [expected]

    def _compute_simulated_noise(self) -> float:
        """Return the relative difference of the logits that simulated rounding causes."""
        return self.allowed["sgd"].compute_logits_noise()

    def _compute_gradient_noise(self) -> float:
        """Return the norm of the difference of the first gradient that simulated rounding causes; 0 if none was."""
        return self.allowed["sgd"].compute_gradient_noise()

    def _check_exchange(self) -> None:
        """Check the formats and the bytes of the gradients that each process's devices exchange in a step.

        There is no such check if a framework's exchange cannot be observed.
        """
        facts = [(optimizer, fact) for optimizer, seen in self.seen.items() for fact in seen.facts]
        if self.num_devices == 1 or any(fact["numbers"]["exchanged"] is None for _, fact in facts):
            return
        expected, wrong = EXCHANGED[self.specs["sgd"].gradient_compression], []
        count = count_exchanged(self.task_weights, self.specs["sgd"])
        for optimizer, fact in facts:
            found, remembered = fact["numbers"]["exchanged"], fact["numbers"]["remembered"]
            num_bytes = count * np.dtype(expected).itemsize * self.num_devices // fact["num_processes"]
            if found != {expected: num_bytes}:
                said = ", ".join(f"{size} bytes in {name}" for name, size in found.items()) or "nothing"
                wrong.append(f"{optimizer}: {said} and not {num_bytes} in {expected}")
            if remembered is not None and remembered < MIN_REMEMBERED:
                wrong.append(f"{optimizer}: no errors of earlier steps in the gradients")
        distinct = list(dict.fromkeys(wrong))
        self._add("exchange", len(distinct), 0, "; ".join(distinct[:3]))

    def _check_batches(self) -> None:
        wrong = []
        for optimizer, seen in self.seen.items():
            for fact in seen.facts:
                share = TrainingBatches(self.specs[optimizer], self.data, fact["rank"], fact["num_processes"])
                expected = [hash_batch(*batch) for batch in read_targets(share, self.specs[optimizer], self.data)]
                wrong += [
                    f"{optimizer}, process {fact['rank']}, step {step}"
                    for step, (one, other) in enumerate(zip(expected, fact["hashes"], strict=False), start=1)
                    if one != other
                ]
                # After a loss that is not finite no more batches are taken; the check of the loss says so.
                diverged = None in fact["losses"]
                wrong += ["the number of batches"] * (len(expected) != len(fact["hashes"]) and not diverged)
        self._add("batches", len(wrong), 0, "; ".join(wrong[:3]))

    def _check_skipped(self) -> None:
        """Check that one step was skipped.

        More are skipped if gradients overflow at the task's loss scale, and none if gradients are not in float16.
        """
        if self.specs["sgd"].precision != "fp16":
            return
        counts = {name: seen.facts[0].get("skipped_steps", "an unknown number") for name, seen in self.seen.items()}
        wrong = [f"{name}: {count}" for name, count in counts.items() if count != has_skipped_step(self.specs[name])]
        self._add("skipped", len(wrong), 0, ", ".join(wrong))

    def _check_losses(self) -> None:
        rows = []
        for optimizer, seen in self.seen.items():
            expected, allowed = self.expected[optimizer]["losses"], self.allowed[optimizer]
            losses = [np.nan if loss is None else loss for loss in seen.facts[0]["losses"]]
            found = np.array([*losses, *[np.nan] * (len(expected) - len(losses))])
            differences = np.abs(found - expected) / np.abs(expected)
            names = ["step " + " and ".join(map(str, steps)) for steps in WINDOWS[self.specs[optimizer].window_steps]]
            rows += [
                (value, allowed.get_loss_limit(window), f"{optimizer}, {names[window - 1]}")
                for window, value in enumerate(differences, start=1)
            ]
        self._add_worst("loss", [row for row in rows if row[2].endswith("step 1")])
        self._add_worst("losses", rows)

    def _read_gradient(self) -> dict[str, np.ndarray]:
        """Return the gradient that the first step of sgd used, without the decay."""
        decay, rate = self.specs["sgd"].optimizer.weight_decay, float(self.allowed["sgd"].rates[0])
        after = self.seen["sgd"].weights("first")
        return {
            name: (array.astype(np.float64) - after[name]) / rate - decay * array
            for name, array in self.task_weights.items()
            if is_trainable(name)
        }

    def _compute_gradient(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Return the gradient that the first step of sgd used, without the decay, and the reference's."""
        return self._read_gradient(), select(self.expected["sgd"], "gradient")

    def _subtract_start(self, weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the changes of all parameters."""
        start = {name: array for name, array in self.task_weights.items() if is_trainable(name)}
        return {name: weights[name].astype(np.float64) - array for name, array in start.items()}

    def _compute_change(self, optimizer: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Return the changes of all parameters over all steps, and the reference's."""
        reference = select(self.expected[optimizer], f"final_{self.suffix}")
        return self._subtract_start(self.seen[optimizer].weights("final")), self._subtract_start(reference)

    def _check_changes(self) -> None:
        """Compare the first gradient and the changes by all steps, as a whole and array by array."""
        changes = {"gradients": ("sgd", "gradient", *self._compute_gradient())}
        for optimizer in self.seen:
            changes[f"updates_{optimizer}"] = (optimizer, f"final_{self.suffix}", *self._compute_change(optimizer))
        wholes: dict[str, list[tuple[float, float, str]]] = {"averaging": [], "direction": [], "norm": []}
        for check, (optimizer, key, found, expected) in changes.items():
            allowed = self.allowed[optimizer]
            along, cosine, ratio = compare_wholes(found, expected)
            limit = allowed.get_whole_limits(key, expected)
            wholes["direction"].append((1 - cosine, limit.direction, f"{check}: cosine {cosine:.4f}"))
            wholes["norm"].append((abs(ratio - 1), limit.norm, f"{check}: {ratio:.4f} times the reference"))
            if check == "gradients":
                self._add("averaging", abs(along - 1), limit.norm, f"{along:.4f} times the reference")
        self._add_worst("direction", wholes["direction"])
        self._add_worst("norm", wholes["norm"])
        for check, (optimizer, key, found, expected) in changes.items():
            self._add_arrays(check, optimizer, key, found, expected)

    def _add_arrays(self, check: str, optimizer: str, key: str, found: dict, expected: dict) -> None:
        """Add the row of the worst array, and count those that only the whole has judged. There may be no other."""
        worst, num_unjudged = self.allowed[optimizer].find_worst(key, found, expected)
        if worst:
            self._add(check, *worst)
        if num_unjudged:
            self.unjudged[check] = f"{num_unjudged} of {len(expected)} arrays"

    def _check_statistics(self) -> None:
        reference = select(self.expected["sgd"], f"final_{self.suffix}")
        statistics = {name: array for name, array in reference.items() if not is_trainable(name)}
        if statistics:
            found = self.seen["sgd"].weights("final")
            self._add_arrays("statistics", "sgd", f"final_{self.suffix}", found, statistics)

    def _check_united(self) -> None:
        first, *others = self.seen["sgd"].join("logits_of_devices")
        if others:
            self._add("united", max(compare(each, first) for each in others), self.allowed["sgd"].of("logits"))

    def _check_evaluations(self) -> None:
        wrong = {name: count_wrong_images(seen) for name, seen in self.seen.items()}
        self._add("evaluated", sum(wrong.values()), 0, f"with {', '.join(name for name in wrong if wrong[name])}")
        for optimizer, seen in self.seen.items():
            check, expected = EVALUATIONS[optimizer], self.expected[optimizer][f"evaluations_{self.suffix}"]
            samples = np.concatenate([arrays["samples"] for arrays in seen.arrays])
            evaluations = np.concatenate([arrays["evaluations"] for arrays in seen.arrays], axis=1)
            found = evaluations[:, np.argsort(samples, kind="stable")]
            self._add(check, compare(found, expected), self.allowed[optimizer].of(f"evaluations_{self.suffix}"))

    def _check_replicas(self) -> None:
        """There is no such check if all devices have one copy of the weights, as a single device has."""
        if sum(fact["num_replicas"] for fact in self.seen["sgd"].facts) == 1:
            return
        differing = []
        for seen in self.seen.values():
            first = seen.weights("final")
            differing += [name for fact in seen.facts for name in fact["differing_replicas"]]
            for arrays in seen.arrays[1:]:
                other = select(arrays, "final")
                differing += [n for n in first if is_trainable(n) and has_drifted(other[n], first[n])]
        self._add("replicas", len(differing), 0, ", ".join(differing[:3]))


def count_exchanged(weights: dict[str, np.ndarray], spec: RunSpec) -> int:
    """Return the number of elements that a device exchanges in a step."""
    arrays = [array for name, array in weights.items() if is_trainable(name)]
    if spec.gradient_compression != "powersgd":
        return sum(array.size for array in arrays)
    # PyTorch's matrices have a row for each output, the last axis of a canonical kernel. Tokens have three axes.
    rows = [array.shape[0 if array.ndim == 3 else -1] for array in arrays]
    shapes = [(count, array.size // count) for count, array in zip(rows, arrays, strict=True)]
    return sum(count_factors(*shape, spec.powersgd_rank) or math.prod(shape) for shape in shapes)


def count_wrong_images(seen: Observation) -> int:
    """Count the test images that are not among the evaluated ones, or are there more than once."""
    samples = np.concatenate([arrays["samples"] for arrays in seen.arrays])
    return int(np.sum(np.bincount(samples, minlength=NUM_TEST) != 1))


def compare_wholes(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> tuple[float, float, float]:
    """Return the projection of found on expected, their cosine, and the ratio of their norms, over all arrays."""
    along = sum(dot(found[name], array) for name, array in expected.items())
    lengths = [norm_of_all(arrays) for arrays in (found, expected)]
    return along / lengths[1] ** 2, along / max(lengths[0] * lengths[1], 1e-30), lengths[0] / lengths[1]


def judge(
    observed: dict[tuple[int, int], Path],
    task: Path,
    strict: dict | None = None,
    compare_by: type[Comparison] = Comparison,
) -> dict:
    """Return the verdict on a framework.

    Its list `not_compared` says what was not compared on some layout, and why; `unjudged`, how many arrays a check has
    not judged by themselves, on the last layout that has such arrays.

    observed: its output folder for each layout (devices, nodes). strict: the fp32 verdict on the same code without
    compression of gradients; None if this is it. It must be `passed`, because the limits of reduced precision are too
    wide for some faults.
    """
    if strict is not None and strict["status"] != "passed":
        reason = f"the fp32 verdict on the same code is {strict['status']}: {strict['reason']}"
        return {"status": strict["status"], "reason": reason, "checks": []}
    rows: list[dict] = []
    facts: dict = {}
    not_compared: list[str] = []
    unjudged: dict[str, str] = {}
    for layout, folder in observed.items():
        if (unsupported := folder / UNSUPPORTED).exists():
            return {"status": "unsupported", "reason": json.loads(unsupported.read_text())["reason"], "checks": rows}
        comparison = compare_by(folder, task, layout)
        rows += comparison.run()
        not_compared += comparison.not_compared
        unjudged |= comparison.unjudged
        facts = {
            "running_statistics": comparison.running_statistics,
            "versions": comparison.seen["sgd"].facts[0]["versions"],
            "not_compared": list(dict.fromkeys(not_compared)),
            "unjudged": unjudged,
        }
    failed = [row for row in rows if not row["passed"]]
    verdict = {"status": "failed" if failed else "passed", "reason": "", "checks": rows, **facts}
    if failed:
        first = min(failed, key=lambda row: (list(CHECKS).index(row["check"]), row["devices"], row["nodes"]))
        cause = compare_by.name_cause(rows)
        verdict["reason"] = describe_failure(first) + (f"; likely: {cause}" if cause else "")
    return verdict | {"global_batch_size": GLOBAL_BATCH_SIZE}


def describe_failure(row: dict) -> str:
    value = "not a number or missing" if row["value"] is None else f"{row['value']:.3g}"
    detail = f" ({row['detail']})" if row["detail"] else ""
    where = describe_layout(row["devices"], row["nodes"])
    return f"{row['check']} on {where}: {value}, allowed {row['tolerance']:.3g}{detail}"


class OwnComparison(Comparison):
    def _check_training(self) -> None:
        if "losses" in self.expected["sgd"]:
            super()._check_training()
        elif f"{NORMS}/gradient" in self.expected["sgd"]:
            self._check_sizes()
        else:
            self.not_compared.append("training on several devices (parts of a batch are normalised apart)")

    @staticmethod
    def name_cause(rows: list[dict]) -> str:
        return name_cause(rows)

    def _check_numbers(self) -> None:
        super()._check_numbers()
        formats = [fact["numbers"]["formats"] for seen in self.seen.values() for fact in seen.facts]
        unseen = [way for kind, way in WAYS.items() if not all(each[kind] for each in formats)]
        if unseen:
            self.not_compared.append(f"formats of products in the {' and '.join(unseen)} pass (none was seen)")

    @staticmethod
    def _match_format(formats: list[str], expected: str) -> bool:
        """Accept other formats too: a user's model may compute partly in float32 or in unreadable layers."""
        return not formats or expected in formats

    def _compute_simulated_noise(self) -> float:
        """Return the unit roundoff: the reference's noise comes from the same code, which may ignore the precision."""
        return UNIT_ROUNDOFF[self.specs["sgd"].precision]

    def _compute_gradient_noise(self) -> float:
        """Return 0, since the reference's gradient has the precision of the run."""
        return 0.0

    def _check_sizes(self) -> None:
        """Compare the norms of gradients and updates, which a sum in place of a mean changes more than other draws do.

        Draws may be of rare events, so that the limit does not depend on the few that the reference has seen.
        """
        found = {"gradients": ("sgd", "gradient", self._read_gradient())}
        for optimizer, seen in self.seen.items():
            found[f"updates_{optimizer}"] = (optimizer, "updates", self._subtract_start(seen.weights("final")))
        rows = []
        for check, (optimizer, key, change) in found.items():
            norms = self.expected[optimizer][f"{NORMS}/{key}"]
            ratio = norm_of_all(change) / norms.mean()
            if DRAWS_FACTOR * norms.std(ddof=1) <= MAX_NORM_RATIO * norms.mean():
                rows.append((abs(ratio - 1), MAX_NORM_RATIO, f"{check}: {ratio:.4f} times the reference"))
        if rows:
            self._add_worst("norm", rows)
        parts = "losses and directions of updates" if rows else "training"
        self.not_compared.append(f"{parts} (the model draws random numbers)")

    def _check_evaluations(self) -> None:
        if f"evaluations_{self.suffix}" in self.expected["sgd"]:
            super()._check_evaluations()
            return
        self.not_compared.append("evaluation after training on several devices (images are normalised apart)")
        wrong = {name: count_wrong_images(seen) for name, seen in self.seen.items()}
        self._add("evaluated", sum(wrong.values()), 0, f"with {', '.join(name for name in wrong if wrong[name])}")
