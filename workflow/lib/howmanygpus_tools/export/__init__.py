"""
Writes the runs of a study for other tools, one module for each tool.

`records` makes the same records for all of them, in `.venv`. A tool's module defines `write(records, folder, place)`
and runs in an environment that has only the tool's own library; it imports nothing else. `place` is where the folder
will be in the end, because it appears whole.
"""

from importlib import import_module
from pathlib import Path
from typing import Any

TOOLS = {
    "tensorboard": "tensorboard --logdir {folder}",
    "wandb": "wandb sync {folder}/wandb/offline-run-*",
    "mlflow": "MLFLOW_ALLOW_FILE_STORE=true mlflow ui --backend-store-uri {folder}",
}
"""The tools, each with the command that shows what was written. Each has an environment of its name in envs/."""


def write(tool: str, records: list[dict[str, Any]], folder: Path, place: Path) -> None:
    import_module(f"{__name__}.{tool}").write(records, folder, place)
