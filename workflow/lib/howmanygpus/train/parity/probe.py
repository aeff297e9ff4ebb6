"""
One process of a framework at the gate's task: does it with one optimizer, and stores what it saw and did.

The five steps go through the backend's own training, with the loop that also trains real runs.
"""

import argparse
import hashlib
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from howmanygpus.files import write_json_atomic
from howmanygpus.train.host.processes import die_with_parent
from howmanygpus.train.input.prepared import open_data
from howmanygpus.train.loop.backend import Backend, UnsupportedError, load_backend
from howmanygpus.train.loop.loop import TrainingLoop
from howmanygpus.train.parity.task import rates_of
from howmanygpus.train.spec import RunSpec


def hash_batch(images: np.ndarray, labels: np.ndarray) -> str:
    """SHA-256 of the bytes of one process's share of a batch."""
    return hashlib.sha256(np.ascontiguousarray(images).tobytes() + np.ascontiguousarray(labels).tobytes()).hexdigest()


class Losses:
    """Takes the place of the event log."""

    def __init__(self):
        self.values: list[float] = []

    def write(self, event: str, **values) -> None:
        if event == "window":
            self.values.append(values["loss"])


class ObservedLoop(TrainingLoop):
    """The training loop, noting the bytes of each batch it puts on the device and the weights after the first step."""

    def host_batches(self):
        self.hashes = []
        for images, labels in super().host_batches():
            self.hashes.append(hash_batch(images, labels))
            yield images, labels

    def after_step(self) -> None:
        super().after_step()
        if self.steps_done == 1:
            self.first_weights = self.backend.weights()


def predict(backend: Backend, images: np.ndarray) -> np.ndarray:
    return backend.predict(backend.put_for_prediction(images))


def observe_evaluation(backend: Backend, images: np.ndarray, num_devices: int) -> dict[str, np.ndarray]:
    """Logits of this process's images: twice, and once more in the company of other images.

    The other images take the second half of every device's share.
    """
    backend.prepare_evaluation()
    first, again = predict(backend, images), predict(backend, images)
    company = images.copy()
    shares = np.array_split(np.arange(len(images)), num_devices)
    replaced = np.concatenate([share[len(share) // 2 :] for share in shares])
    company[replaced] = 255 - company[replaced]
    kept = np.setdiff1d(np.arange(len(images)), replaced)
    return {"logits": first, "logits_again": again, "kept": kept, "logits_in_company": predict(backend, company)[kept]}


def observe(spec: RunSpec, optimizer: str) -> tuple[dict[str, np.ndarray], dict]:
    """Arrays and facts of one optimizer's five steps, on this process."""
    data = open_data(spec.data_dir)
    rates = rates_of(optimizer)
    backend = load_backend(spec)(spec, data, load_file(spec.weights_file), rates)
    arrays = {f"initial/{name}": array for name, array in backend.weights().items()}
    share = len(data.test_images) // backend.num_processes
    images = data.test_images[backend.rank * share : (backend.rank + 1) * share]
    arrays |= observe_evaluation(backend, images, spec.num_gpus // backend.num_processes)
    losses = Losses()
    with ObservedLoop(spec, data, backend, rates, losses) as loop:
        backend.train(loop)
    arrays |= {f"first/{name}": array for name, array in loop.first_weights.items()}
    backend.prepare_evaluation()
    arrays |= {f"final/{name}": array for name, array in backend.weights().items()}
    arrays["final_logits"] = predict(backend, images)
    facts = {
        **{"rank": backend.rank, "num_processes": backend.num_processes, "losses": losses.values},
        **{"hashes": loop.hashes, "running_statistics": backend.running_statistics, "versions": backend.versions()},
    }
    backend.close()
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}, facts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", type=Path, required=True, help="JSON: the run's specification")
    parser.add_argument("--optimizer", required=True)
    parser.add_argument("--folder", type=Path, required=True, help="where to leave what was seen")
    arguments = parser.parse_args()
    die_with_parent()
    try:
        arrays, facts = observe(RunSpec.read(arguments.spec), arguments.optimizer)
    except UnsupportedError as error:
        write_json_atomic(arguments.folder / "unsupported.json", {"reason": str(error)})
        return
    stem = f"{arguments.optimizer}.rank{facts['rank']}"
    save_file(arrays, arguments.folder / f"{stem}.safetensors")
    write_json_atomic(arguments.folder / f"{stem}.json", facts)


if __name__ == "__main__":
    main()
