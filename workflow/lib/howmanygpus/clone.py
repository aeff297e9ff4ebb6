"""The folder of the workflow's code. Results, and the files that users name, are in the folder of the call."""

import shlex
import sys
from pathlib import Path

CLONE = Path(__file__).resolve().parents[3]
"""The folder in which `workflow/`, `envs/`, `config/` and `profiles/` are."""
LIBRARY, SCRIPTS, TEMPLATES, CAPTIONS = (
    CLONE / "workflow" / name for name in ("lib", "scripts", "report/templates", "report/captions")
)


def choose_file(path: str) -> str:
    """Return the path of a file in the folder of the call or, if there is none, of the one in the workflow's folder."""
    return path if Path(path).exists() else str(CLONE / path)


def name_script(name: str) -> str:
    """Return how the user of the current folder starts a script of the workflow; the folder may not be a clone."""
    own = Path(".venv/bin/python"), Path(f"workflow/scripts/{name}.py")
    if all(path.exists() for path in own):
        return " ".join(map(str, own))
    return shlex.join([sys.executable, str(SCRIPTS / f"{name}.py")])
