"""
Judge a framework for the parity gate: compare what it did with the task to the float64 reference.

Each check has a name, a value, a tolerance and the reason for the tolerance. The order of the checks matters: the first
check that fails is named as the cause, because the later failures follow from it.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from howmanygpus.train.input.batches import TrainingBatches
from howmanygpus.train.input.prepared import open_data
from howmanygpus.train.models.initialization import is_trainable
from howmanygpus.train.parity.probe import hash_batch
from howmanygpus.train.parity.task import CRASHED, GLOBAL_BATCH_SIZE, OPTIMIZERS, UNSUPPORTED, rates_of
from howmanygpus.train.spec import RunSpec

CHECKS = {
    "weights": "parameter count, shapes and values after loading, relative difference of the worst array",
    "repeatable": "logits of the same images twice, relative difference; dropout left on makes them differ",
    "independent": "logits of an image in the company of others; batch statistics left on make them differ",
    "evaluation": "logits with running statistics drawn at random, before training",
    "batches": "batches whose bytes are not those that this process should have got",
    "loss": "training loss of the first step",
    "averaging": "the gradient along the reference's; on two devices 1 is their mean, 2 their sum",
    "gradients": "gradient of the worst array after one step",
    "updates_sgd": "change of the worst array over five steps of sgd with momentum, weight decay and a changing rate",
    "updates_adam": "the same with adam",
    "statistics": "BatchNorm's running statistics after five steps, of the worst array",
    "evaluation_after": "logits after five steps",
    "replicas": "parameters of the processes after five steps, which should be the same bit for bit",
}
FLOAT32_ULP = 2.0**-23
GATES_OF_FIVE_STEPS = 3.0
"""Factor on the measured ReLU-threshold effect: rounding grows over five steps, the shift does not."""


@dataclass(frozen=True)
class Tolerances:
    """Relative differences that rounding can cause between two correct results.

    weights: the rounding of a division and a multiplication by n / (n - 1). The other differences grow with the depth
    of the network and from one step to the next. after: for logits and running statistics after five steps.
    """

    logits: float
    loss: float
    averaging: float
    gradients: float
    updates: float
    after: float
    weights: float = 2.0**-22


TOLERANCES = {
    # On the 44 layers of resnet44, every framework stayed within a tenth of these values.
    "fp32": Tolerances(logits=1e-4, loss=2e-5, averaging=1e-3, gradients=1e-3, updates=5e-3, after=5e-3),
    # Convolutions and matrix products have 3 mantissa bits more than bf16: an eighth of its error, doubled.
    "tf32": Tolerances(logits=0.015, loss=5e-3, averaging=0.05, gradients=0.6, updates=0.8, after=0.15),
    # These are three times the differences that PyTorch, JAX and Keras show on resnet44 on one and two CPU devices; the
    # three are much alike. Hundreds of ReLUs decide differently, so single small arrays say little. The direction of
    # all arrays together, `averaging`, still distinguishes a sum from a mean. What bf16 cannot distinguish, the fp32
    # check of the same code does.
    "bf16": Tolerances(logits=0.06, loss=0.02, averaging=0.2, gradients=2.4, updates=3.2, after=0.6),
}


@dataclass(frozen=True)
class Observation:
    """The files that the processes of one framework wrote about one optimizer's five steps, by rank."""

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


def norm(array: np.ndarray) -> float:
    return float(np.linalg.norm(np.asarray(array, np.float64)))


def compare(found: np.ndarray, expected: np.ndarray) -> float:
    """Return norm(found - expected) / norm(expected); infinite if shapes differ or a value is not finite."""
    if found.shape != expected.shape or not np.isfinite(found).all():
        return float("inf")
    return norm(found - expected) / max(norm(expected), 1e-12)


def compare_worst(found: dict, expected: dict, tolerance: float, rounding: dict) -> tuple[float, float, str]:
    """Find the array whose relative difference is largest compared with its allowance.

    Returns (relative difference, its allowance, name of the array). The differences of arrays with a very small norm
    are taken relative to a thousandth of the mean norm. rounding: by array, the norm of the differences that float32
    causes in a correct framework. They widen the allowance.
    """
    floor = 1e-3 * np.sqrt(np.mean([norm(array) ** 2 for array in expected.values()]))
    rows = []
    for name, array in expected.items():
        scale = max(norm(array), floor, 1e-12)
        finite = found[name].shape == array.shape and np.isfinite(found[name]).all()
        difference = norm(found[name] - array) / scale if finite else float("inf")
        rows.append((difference, tolerance + rounding[name] / scale, name))
    return max(rows, key=lambda row: row[0] / row[1])


class Comparison:
    """All checks of one framework on one layout, which is the numbers of devices and of nodes."""

    def __init__(self, folder: Path, task: Path, layout: tuple[int, int], precision: str):
        self.allowed, (num_devices, self.num_nodes) = TOLERANCES[precision], layout
        self.num_devices = num_devices
        self.task_weights = load_file(task / "weights.safetensors")
        self.data = open_data(task / "data")
        self.specs = {name: RunSpec.read(folder / f"{name}.spec.json") for name in OPTIMIZERS}
        self.seen = {name: Observation.read(folder, name) for name in OPTIMIZERS}
        self.expected = {name: load_file(task / f"{name}.devices{num_devices}.safetensors") for name in OPTIMIZERS}
        self.running_statistics = self.seen["sgd"].facts[0]["running_statistics"]
        self.suffix = {"mean of all devices": "mean", "first device": "first"}[self.running_statistics]
        self.rows: list[dict] = []

    def _add(self, check: str, value: float, tolerance: float, detail: str = "") -> None:
        # A value of nan fails, since every comparison with it is false.
        self.rows.append(
            {
                **{"devices": self.num_devices, "nodes": self.num_nodes, "check": check},
                **{"value": float(value) if np.isfinite(value) else None, "tolerance": float(tolerance)},
                **{"passed": bool(np.isfinite(value) and value <= tolerance), "detail": detail},
            }
        )

    def run(self) -> list[dict]:
        self._check_weights()
        if self.rows[-1]["passed"]:
            self._check_evaluation()
            self._check_batches()
            self._check_first_step()
            self._check_updates()
            self._check_state()
        return self.rows

    def _check_weights(self) -> None:
        found, expected = self.seen["sgd"].weights("initial"), self.task_weights
        if found.keys() != expected.keys():
            missing = sorted(found.keys() ^ expected.keys())
            self._add("weights", float("inf"), self.allowed.weights, f"differ in {', '.join(missing[:5])}")
            return
        worst = max((compare(found[name], array), name) for name, array in expected.items())
        count = sum(array.size for name, array in found.items() if is_trainable(name))
        self._add("weights", worst[0], self.allowed.weights, f"{count} trainable parameters; {worst[1]}")

    def _check_evaluation(self) -> None:
        seen = self.seen["sgd"]
        self._add("repeatable", compare(seen.join("logits_again"), seen.join("logits")), self.allowed.logits)
        kept = np.concatenate([arrays["logits"][arrays["kept"]] for arrays in seen.arrays])
        self._add("independent", compare(seen.join("logits_in_company"), kept), self.allowed.logits)
        self._add("evaluation", compare(seen.join("logits"), self.expected["sgd"]["logits"]), self.allowed.logits)

    def _check_batches(self) -> None:
        wrong = []
        for optimizer, seen in self.seen.items():
            for fact in seen.facts:
                share = TrainingBatches(self.specs[optimizer], self.data, fact["rank"], fact["num_processes"])
                expected = [hash_batch(*batch) for batch in share]
                wrong += [
                    f"{optimizer}, process {fact['rank']}, step {step}"
                    for step, (one, other) in enumerate(zip(expected, fact["hashes"], strict=False), start=1)
                    if one != other
                ]
                wrong += ["the number of batches"] * (len(expected) != len(fact["hashes"]))
        self._add("batches", len(wrong), 0, "; ".join(wrong[:3]))

    def _check_first_step(self) -> None:
        seen, expected, allowed = self.seen["sgd"], self.expected["sgd"], self.allowed
        loss, expected_loss = seen.facts[0]["losses"][0], expected["losses"][0]
        self._add("loss", compare(np.array([loss or np.nan]), np.array([expected_loss])), allowed.loss)
        rate, decay = float(rates_of("sgd")[0]), self.specs["sgd"].optimizer.weight_decay
        after, reference = seen.weights("first"), select(expected, "gradient")
        gradients = {
            name: (self.task_weights[name].astype(np.float64) - after[name]) / rate - decay * self.task_weights[name]
            for name in reference
        }
        rounding = {
            name: norm(expected[f"rounding/gradient/{name}"]) + FLOAT32_ULP * norm(self.task_weights[name]) / rate
            for name in reference
        }
        along = sum(float(np.vdot(gradients[name], array)) for name, array in reference.items())
        along /= sum(norm(array) ** 2 for array in reference.values())
        self._add("averaging", abs(along - 1.0), allowed.averaging, f"{along:.4f} times the reference")
        value, tolerance, name = compare_worst(gradients, reference, allowed.gradients, rounding)
        self._add("gradients", value, tolerance, name)

    def _check_updates(self) -> None:
        for optimizer, seen in self.seen.items():
            expected = self.expected[optimizer]
            found, reference = seen.weights("final"), select(expected, f"final_{self.suffix}")
            names = [name for name in reference if is_trainable(name)]
            changed, expected_change = (
                {name: weights[name].astype(np.float64) - self.task_weights[name] for name in names}
                for weights in (found, reference)
            )
            rounding = {
                name: GATES_OF_FIVE_STEPS * norm(expected[f"rounding/final_{self.suffix}/{name}"])
                + len(rates_of(optimizer)) * FLOAT32_ULP * norm(self.task_weights[name])
                for name in names
            }
            value, tolerance, name = compare_worst(changed, expected_change, self.allowed.updates, rounding)
            self._add(f"updates_{optimizer}", value, tolerance, name)

    def _check_state(self) -> None:
        seen, expected = self.seen["sgd"], self.expected["sgd"]
        found, reference = seen.weights("final"), select(expected, f"final_{self.suffix}")
        statistics = {name: array for name, array in reference.items() if not is_trainable(name)}
        if statistics:
            rounding = {
                name: GATES_OF_FIVE_STEPS * norm(expected[f"rounding/final_{self.suffix}/{name}"])
                for name in statistics
            }
            self._add("statistics", *compare_worst(found, statistics, self.allowed.after, rounding))
        key = f"final_logits_{self.suffix}"
        widened = GATES_OF_FIVE_STEPS * norm(expected[f"rounding/{key}"]) / norm(expected[key])
        tolerance = self.allowed.after + widened
        self._add("evaluation_after", compare(seen.join("final_logits"), expected[key]), tolerance)
        if len(seen.arrays) > 1:
            parameters = [name for name in seen.arrays[0] if name.startswith("final/") and is_trainable(name)]
            others = [
                name
                for arrays in seen.arrays[1:]
                for name in parameters
                if not np.array_equal(arrays[name], seen.arrays[0][name])
            ]
            self._add("replicas", len(others), 0, ", ".join(others[:3]))


def judge(observed: dict[tuple[int, int], Path], task: Path, precision: str) -> dict:
    """Return the verdict on a framework. `observed`: its output folder for each layout (devices, nodes)."""
    rows: list[dict] = []
    facts: dict = {}
    for layout, folder in observed.items():
        if (unsupported := folder / UNSUPPORTED).exists():
            return {"status": "unsupported", "reason": json.loads(unsupported.read_text())["reason"], "checks": rows}
        if (crashed := folder / CRASHED).exists():
            reason = json.loads(crashed.read_text())["reason"]
            reason = f"the task could not be done on {describe_layout(layout)}: {reason}"
            return {"status": "failed", "reason": reason, "checks": []}
        comparison = Comparison(folder, task, layout, precision)
        rows += comparison.run()
        facts = {
            "running_statistics": comparison.running_statistics,
            "versions": comparison.seen["sgd"].facts[0]["versions"],
        }
    failed = [row for row in rows if not row["passed"]]
    verdict = {"status": "failed" if failed else "passed", "reason": "", "checks": rows, **facts}
    if failed:
        first = min(failed, key=lambda row: (list(CHECKS).index(row["check"]), row["devices"], row["nodes"]))
        verdict["reason"] = describe_failure(first)
    return verdict | {"global_batch_size": GLOBAL_BATCH_SIZE}


def describe_layout(layout: tuple[int, int]) -> str:
    devices, nodes = layout
    return f"{devices} devices" + (f" of {nodes} nodes" if nodes > 1 else "")


def describe_failure(row: dict) -> str:
    value = "not a number or missing" if row["value"] is None else f"{row['value']:.3g}"
    detail = f" ({row['detail']})" if row["detail"] else ""
    where = describe_layout((row["devices"], row["nodes"]))
    return f"{row['check']} on {where}: {value}, allowed {row['tolerance']:.3g}{detail}"
