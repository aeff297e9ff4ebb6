"""
Runs whose backend does not wait for its devices in every other window, with which `make check-gpu` shows that rates do
not depend on it.

No key of a config leads to them, and they have a folder of their own, which no table and no figure reads.
"""

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

from howmanygpus.files import sha256_of_file, write_json_atomic
from howmanygpus.measure.records import AttemptFolder

STUDY, VARIANT = "check_gpu_waits", "without_wait"
"""What the specification of such a run has in place of those of a study."""
LAUNCHER = "howmanygpus_tools.check_gpu.launch_without_wait"
LIMIT_S = 300.0
"""Time limit of such a run."""
LIBRARY = Path(__file__).resolve().parents[2]
UNSUPPORTED = "unsupported"


@dataclass(frozen=True)
class RunWithoutWait:
    """A run without wait.

    folder: of its records. spec: its complete specification. environment: record of the framework's environment.
    verdict: the parity gate's on the framework. placement: see measure.host.placement. shows_it: whether the framework
    returns from a step before the devices have done it, so that a wait could be missed. unsupported: why the framework
    does not run here; empty if it does.
    """

    folder: Path
    spec: dict
    environment: str
    verdict: str
    placement: dict
    shows_it: bool
    unsupported: str = ""

    @property
    def framework(self) -> str:
        return self.spec["framework"]

    def list_missing(self) -> list[str]:
        """Return the records that do not exist of what Snakemake makes for it."""
        weights = str(Path(self.spec["weights_file"]).with_suffix(".json"))
        records = (self.environment, self.verdict, f"{self.spec['data_dir']}/dataset.json", weights)
        return [record for record in records if not Path(record).is_file()]

    def explain_refusal(self) -> str:
        """Return why it is not started; empty if it is, or if the gate has not said yet."""
        if self.unsupported or not Path(self.verdict).is_file():
            return self.unsupported
        verdict = json.loads(Path(self.verdict).read_text())
        return (verdict["reason"] or UNSUPPORTED) if verdict["status"] == UNSUPPORTED else ""

    def read_outcome(self) -> dict | None:
        """Return the record of this run; None if it has no outcome, or one of other code or of another specification.

        An outcome is any end but a crash, a signal or the time limit.
        """
        path = self.folder / "run.json"
        if not path.exists():
            return None
        record = json.loads(path.read_text())
        is_current = record["spec"] == json.loads(json.dumps(self.spec)) and _is_current(record["code"])
        return record if is_current else None

    def read_last_attempt(self) -> dict | None:
        """Return the record of the last attempt without an outcome; None without one."""
        records = sorted(self.folder.glob("attempts/*/attempt.json"))
        return json.loads(records[-1].read_text()) if records else None

    def create_attempt(self, python: str) -> list[str]:
        """Create the folder of an attempt, and return the command line of its launcher.

        python: interpreter of the framework's environment.
        """
        started = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        attempt = AttemptFolder(self.folder / "attempts" / f"{started}-{os.getpid()}")
        attempt.path.mkdir(parents=True)
        write_json_atomic(attempt.spec, self.spec)
        write_json_atomic(attempt.placement, self.placement)
        options = {"--attempt": str(attempt.path), "--run-dir": str(self.folder), "--deadline-s": str(LIMIT_S)}
        options["--parity"] = json.loads(Path(self.verdict).read_text())["status"]
        return [python, "-m", LAUNCHER, *(word for option in options.items() for word in option)]


def _is_current(code: dict[str, str]) -> bool:
    """Return whether files of this package are what a run imported. code: see measure.loop.train.hash_loaded_code."""
    files = {LIBRARY / name: sha256 for name, sha256 in code.items()}
    return all(file.is_file() and sha256_of_file(file) == sha256 for file, sha256 in files.items())
