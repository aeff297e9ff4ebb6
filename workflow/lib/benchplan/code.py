"""Which files of this project each step executes: a change of one of them reruns the step."""

from functools import cache
from pathlib import Path

from benchplan.frameworks import FRAMEWORKS

LIBRARY = Path("workflow/lib")
SCRIPTS = Path("workflow/scripts")
TRAINBENCH = LIBRARY / "trainbench"


@cache
def training_code(framework: str, model: str) -> list[str]:
    """The shared measured side, one backend, its family's shared file and its family's file of one model."""
    family = FRAMEWORKS[framework].family
    model_dir = TRAINBENCH / "models" / model
    own = [
        TRAINBENCH / "backends" / f"{framework}.py",
        TRAINBENCH / "families" / f"{family}.py",
        *(model_dir / name for name in ("__init__.py", "parameters.py", f"{family}.py")),
    ]
    packages = [TRAINBENCH / name / "__init__.py" for name in ("backends", "families", "models")]
    start = SCRIPTS / "train.py"
    return [str(path) for path in (start, *sorted(TRAINBENCH.glob("*.py")), *packages, *own)]


def environment_name(framework: str, device: str) -> str:
    return FRAMEWORKS[framework].environments["cpu" if device == "cpu" else "cuda"]


def environment_pins(framework: str, device: str) -> list[str]:
    return [f"envs/{environment_name(framework, device)}.txt", "envs/measured.txt"]


def script(name: str, *library_files: str) -> list[str]:
    """A script of workflow/scripts/ and what it uses of workflow/lib/."""
    return [str(SCRIPTS / f"{name}.py"), *(str(LIBRARY / file) for file in library_files)]
