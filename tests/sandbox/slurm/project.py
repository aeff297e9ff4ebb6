"""A copy of the project whose runs are jobs of the test cluster."""

import subprocess
from contextlib import suppress

import yaml

from hanging import HANG_S
from howmanygpus.files import find_files
from howmanygpus.measure.around.schema import read_record
from project import Project
from slurm.cluster import CORES_PER_NODE, GPUS_PER_NODE, Cluster, wait_for

DEVICE = {
    **{"kind": "cpu", "devices_per_node": GPUS_PER_NODE, "max_nodes": 2},
    **{"cores_per_device": CORES_PER_NODE // GPUS_PER_NODE, "memory_per_device_mb": 2000, "partition": "gpu"},
    **{"request": "gpu:fake:{n}", "nodes": "shared"},
}
"""A pretend GPU with the work done by CPU cores. A node's tasks share this host's cores, so they are not bound."""
QUICK = {
    "slurm-init-seconds-before-status-checks": 2,
    "seconds-between-status-checks": 2,
    "latency-wait": 5,
    "retries": 0,
}


class ClusterProject(Project):
    """A copy of the project that submits its runs to the test cluster."""

    profile = "profiles/slurm"

    def __init__(self, folder, cluster: Cluster, fakes=(), **device):
        super().__init__(folder, fakes)
        self.cluster = cluster
        self.write_machine(**device)
        self.edit_profile(**QUICK)

    def write_machine(self, slurm=None, reference_kernel=False, **device) -> None:
        """Write the machine file with one kind of device and the given changes.

        The reference kernel is a step of its own in the first job of a day on a node.
        """
        shared = {"bind_cores": False, "rendezvous_timeout_s": 300, "preflight": False} | (slurm or {})
        machine = {"scheduler": "slurm", "devices": {"fake": DEVICE | device}, "slurm": shared}
        machine |= {"reference_kernel": reference_kernel}
        (self.folder / "profiles" / "slurm" / "machine.yaml").write_text(yaml.safe_dump(machine))

    def edit_profile(self, **changes) -> None:
        path = self.folder / "profiles" / "slurm" / "config.yaml"
        path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | changes))

    def environment(self) -> dict[str, str]:
        return super().environment() | self.cluster.environment() | {"PYTHONFAULTHANDLER": "1"}

    def submit_packed(self, *arguments: str, timeout_s: float = HANG_S) -> None:
        """Submit the job that does all runs of up to one node, and wait for its end."""
        script = ["workflow/scripts/submit_packed.py", "--profile", self.profile, "--time", "1:00:00"]
        environment = self.environment() | {"SBATCH_WAIT": "1", "PYTHONPATH": "workflow/lib"}
        command = [".venv/bin/python", *script, "--", *arguments]
        subprocess.run(command, cwd=self.folder, env=environment, check=True, timeout=timeout_s)

    def wait_until(self, condition, what: str, timeout_s: float = HANG_S) -> None:
        wait_for(condition, what, self.cluster.folder / "slurmctld.log", timeout_s, poll_s=0.5)

    def find_attempts(self, cell: str) -> list[dict]:
        """Return the attempts' records, oldest first, of the runs whose path contains `cell`."""
        found = find_files(self.folder / "results" / "attempts", "**/attempt.json")
        records = []
        for path in found:
            # A run that completes removes its attempt.
            with suppress(FileNotFoundError):
                records += [read_record(path)] if cell in str(path) else []
        return records

    def wait_for_running(self, cell: str) -> dict:
        """Wait until all processes of a run have started, and return its job."""

        def is_running():
            found = find_files(self.folder / "results" / "attempts", "**/processes-*/process0.json")
            attempts = self.find_attempts(cell)
            return attempts and "job" in attempts[-1] and any(cell in str(path) for path in found)

        self.wait_until(is_running, f"the run of {cell}")
        return self.find_attempts(cell)[-1]["job"]
