"""What planning says of a wrong model of a user, in a folder of its own."""

import pytest

from howmanygpus.config.errors import ConfigError
from howmanygpus.site.machine import Device, Machine
from howmanygpus.study.invalidation.syntax import read_code
from howmanygpus.study.plan import Plan
from project import ROOT, study

CPU = Machine("machine.yaml", {"cpu": Device(8, 1)})
UNNAMED = "has a name that is no plain identifier, which paths and tables need"
LETTERS = "with lower-case letters, digits and underscores, beginning with a letter"


def enter_folder(folder, monkeypatch) -> None:
    """Plan in a folder that has what the planner reads of the workflow."""
    monkeypatch.chdir(folder)
    for name in ("envs", "workflow"):
        (folder / name).symlink_to(ROOT / name)


def refuse_model(model: str, **changes) -> str:
    """Return what planning a study with the model says, without `studies.` at its beginning."""
    read_code.cache_clear()
    given = study(model=model, **{"frameworks": ["pytorch_ddp"], "devices": ["cpu"], "parity": "report"} | changes)
    with pytest.raises(ConfigError) as raised:
        Plan({"studies": {"s": given}}, CPU)
    return str(raised.value).removeprefix("studies.")
