"""Compares what the files of a user's model import with the environments in which a study executes them."""

from pathlib import Path
from typing import TYPE_CHECKING

from howmanygpus.plan.frameworks import FRAMEWORKS
from howmanygpus.plan.own.folder import REFERENCE, ModelFolder
from howmanygpus.plan.own.imports import INSTEAD, check_imports
from howmanygpus.plan.own.model import OwnModel

if TYPE_CHECKING:
    from howmanygpus.plan.study.study import Study

INSTEAD_IN_FOLDER = "write `from . import` for a file of the folder"


def check_environments(study: "Study") -> None:
    """Raise ConfigError if a file of a study's own model imports what an environment that executes it lacks.

    A study that is planned again from a request has no machine file, so that nobody knows which environments existing
    interpreters replace. It was checked when the user's config was planned.
    """
    model = study.own_model
    if model is None or not study.machine.path:
        return
    is_folder = isinstance(model, ModelFolder)
    for family, environment, purpose in _list_executions(study, model):
        file = model.file(family) if isinstance(model, ModelFolder) else Path(model.path)
        instead = INSTEAD_IN_FOLDER if is_folder else INSTEAD
        check_imports(f"{study.place}.model", study.given_model, file, environment, instead, is_folder, purpose)


def _list_executions(study: "Study", model: OwnModel | ModelFolder) -> list[tuple[str, str, str]]:
    """Return which family's file is executed in which environment, and by what, each environment one time."""
    if isinstance(model, OwnModel):
        first = (model.family, model.environment, "")
    else:
        first = (REFERENCE, FRAMEWORKS["pytorch_ddp"].environments["cpu"], "")
    found = {first[1]: first}
    # Runs that are not supported are never executed.
    for framework, device in dict.fromkeys((run.framework, run.device) for run in study.runs if not run.unsupported):
        entry, kind = FRAMEWORKS[framework], study.machine.device(device).kind
        environment = entry.environments[kind]
        found.setdefault(environment, (entry.family, environment, f", where {framework} trains it on {device}"))
    return list(found.values())
