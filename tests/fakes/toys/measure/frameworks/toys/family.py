"""What the backends of the toy family share: a network in numpy that predicts and never learns."""

import numpy as np

from howmanygpus.measure.frameworks.toys.walker import build
from howmanygpus.measure.input.prepared import PreparedData
from howmanygpus.measure.loop.backend import StepwiseBackend
from howmanygpus.measure.spec import RunSpec


class ToyBackend(StepwiseBackend):
    def __init__(self, spec: RunSpec, data: PreparedData, weights: dict[str, np.ndarray], learning_rates: np.ndarray):
        self.spec, self._weights = spec, weights
        self.network = build(spec.model, data.image_shape, data.num_classes)

    def put_on_device(self, images: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return images

    def put_for_prediction(self, images: np.ndarray) -> np.ndarray:
        return images

    def predict(self, batch: np.ndarray) -> np.ndarray:
        return self.network(batch / np.float32(255), self._weights)

    def mark_step(self) -> None:
        return None

    def wait_until_idle(self) -> None:
        pass

    def read_window_loss(self, num_steps: int) -> float:
        return 1.0 + getattr(self.spec, "toy_setting", 0)

    def weights(self) -> dict[str, np.ndarray]:
        return self._weights

    def peak_memory_bytes(self) -> None:
        return None

    def versions(self) -> dict[str, str]:
        return {"toy": "1.0"}

    def settings(self) -> dict[str, str]:
        return {"execution": "none", "layout": "none", "optimizer": "none"}

    def device_model(self) -> None:
        return None
