"""
What the parity gate checks: one cell for everything that decides whether runs do the same work.

A verdict's file bears the hash of the code and pins that it is about, so that a change of a backend asks for another
file; the gate's own code is an input of its rule only, so that a change of the gate reruns no training.
"""

import json
from dataclasses import dataclass

from howmanygpus.plan.config.machine import Device
from howmanygpus.plan.frameworks import FRAMEWORKS
from howmanygpus.plan.invalidation.code import hash_checked

MOST_DEVICES = 2


@dataclass(frozen=True)
class ParityCell:
    """shape: height, width, channels. Runs of one cell share a verdict; those over nodes have one of their own."""

    framework: str
    model: str
    shape: tuple[int, int, int]
    num_classes: int
    precision: str
    device: str
    batchnorm: str
    loss_on_every_device: bool
    device_kind: str
    cores_per_device: int
    over_nodes: bool

    @property
    def environment(self) -> str:
        return FRAMEWORKS[self.framework].environments[self.device_kind]

    @property
    def task(self) -> str:
        """Name of the task's folder below results/parity/, which cells of all frameworks share."""
        height, width, channels = self.shape
        return f"{self.model}_{height}x{width}x{channels}_classes{self.num_classes}_{self.batchnorm}"

    @property
    def verdict(self) -> str:
        option = "_loss-on-every-device" if self.loss_on_every_device else ""
        option += "_over-nodes" if self.over_nodes else ""
        checked = hash_checked(self.framework, self.model, self.environment)
        return f"results/parity/{self.task}/{self.framework}_{self.precision}_{self.device}{option}-{checked}.json"

    def request(self) -> str:
        """The cell as howmanygpus.train.parity.task.make_spec takes it."""
        what = ("framework", "model", "precision", "batchnorm", "loss_on_every_device")
        where = ("device", "device_kind", "cores_per_device")
        return json.dumps({key: getattr(self, key) for key in (*what, *where)})

    def layouts(self, device: Device) -> list[str]:
        """Devices x nodes: two on as many nodes; or one, and two on one node, where framework and machine have them."""
        if self.over_nodes:
            return [f"{MOST_DEVICES}x{MOST_DEVICES}"]
        framework = FRAMEWORKS[self.framework]
        most = min(MOST_DEVICES, device.devices_per_node, framework.max_devices.get(self.device_kind, MOST_DEVICES))
        if most < MOST_DEVICES or self.batchnorm not in framework.batchnorm[self.device_kind]:
            return ["1x1"]
        return ["1x1", f"{MOST_DEVICES}x1"]
