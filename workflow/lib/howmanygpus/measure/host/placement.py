"""Settings of the machine that a run needs besides its number of devices: where and how its processes start."""

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Placement:
    """How the processes of a run start. The defaults describe a single machine without a scheduler.

    scheduler: `none`, or `slurm` if the launcher runs inside a job of SLURM.
    step_options: options of srun for every step, with {n} for the number of devices on each node. A step has none of
        its job's devices unless it asks for them.
    bind_cores: whether each process is bound to its device's cores.
    network_interface, rendezvous_suffix: how the other nodes reach this one.
    rendezvous_timeout_s: how long processes wait for each other.
    scratch: folder on each node to which the data are copied first.
    telemetry_interval_s: time between two samples of the devices.
    python: command that starts the Python of the processes, if it is in a container of each node; empty for this one.
    container_options: options of srun that start the container.
    python_version: that of `python`, if it is known.
    """

    scheduler: str = "none"
    step_options: list[str] = field(default_factory=list)
    bind_cores: bool = True
    network_interface: str | None = None
    rendezvous_suffix: str = ""
    rendezvous_timeout_s: float = 300.0
    scratch: str | None = None
    telemetry_interval_s: float = 0.1
    python: list[str] = field(default_factory=list)
    container_options: list[str] = field(default_factory=list)
    python_version: str | None = None

    def describe_step(self, devices_per_node: int) -> list[str]:
        """Return srun's options for a step with this number of devices on each node."""
        return [*(option.format(n=devices_per_node) for option in self.step_options), *self.container_options]

    @classmethod
    def without_data(cls, values: dict) -> "Placement":
        """Return the placement of processes that read no data, so that nothing is copied."""
        return cls(**values | {"scratch": None})

    def to_dict(self) -> dict:
        return dataclasses.asdict(self)

    @classmethod
    def read(cls, path: Path) -> "Placement":
        """Read a JSON file; return the defaults if it does not exist. Raises TypeError for an unknown key."""
        return cls(**json.loads(Path(path).read_text())) if Path(path).exists() else cls()
