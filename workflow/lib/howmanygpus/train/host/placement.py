"""Where and how a run's processes start: what a run is told of the machine, besides its number of devices."""

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Placement:
    """The defaults are this machine itself.

    scheduler: `none` or `slurm`, inside a job of which the launcher then runs.
    step_options: of srun, for every step, with {n} for its devices on each node; SLURM's steps have none of their
        job's devices without being told.
    bind_cores: bind each process to its device's cores.
    network_interface, rendezvous_suffix: how the other nodes reach this one.
    scratch: folder on each node to which the data are copied first.
    """

    scheduler: str = "none"
    step_options: list[str] = field(default_factory=list)
    bind_cores: bool = True
    network_interface: str | None = None
    rendezvous_suffix: str = ""
    rendezvous_timeout_s: float = 300.0
    scratch: str | None = None

    def describe_step(self, devices_per_node: int) -> list[str]:
        """Options of srun for a step with so many devices on each node."""
        return [option.format(n=devices_per_node) for option in self.step_options]

    @classmethod
    def without_data(cls, values: dict) -> "Placement":
        """The same for processes that read nothing worth copying."""
        return cls(**values | {"scratch": None})

    def to_dict(self) -> dict:
        return dataclasses.asdict(self)

    @classmethod
    def read(cls, path: Path) -> "Placement":
        """From a JSON file; this machine where there is none. Raises TypeError for an unknown key."""
        return cls(**json.loads(Path(path).read_text())) if Path(path).exists() else cls()
