"""
The workflow as a module of another one, which may give its rules other names, and its results a folder of their own.

Snakemake puts a module's `prefix` before the inputs, outputs and logs of its rules. Everything else that names files of
a run is relative to the folder of the call, as in records. So the steps run in the folder of the prefix, where results
are as if the workflow had been called there.
"""

from pathlib import Path
from typing import Any

from snakemake_interface_common.exceptions import WorkflowError


class _Added:
    """What stands before and after the workflow's own names of its rules."""

    before = after = ""


def is_module(workflow: Any) -> bool:
    """Whether another workflow imports this one. workflow: Snakemake's, while it reads the Snakefile."""
    return not workflow.modifier.is_main_snakefile()


def find_place(workflow: Any) -> Path:
    """Return the folder that holds `results/`, relative to that of the call."""
    results = Path(str(workflow.modifier.modify_path("results/runs")))
    if results.parts[-2:] != ("results", "runs"):
        raise WorkflowError(f"replace_prefix: moves results/runs to {results}, which no step finds; use `prefix`")
    return results.parents[1]


def note_names(workflow: Any) -> None:
    """Note what the importing workflow puts before and after the names of rules. workflow: see is_module."""
    before, _, after = workflow.modifier.modify_rulename("*").partition("*")
    _Added.before, _Added.after = before, after


def find_own_name(rule: Any) -> str:
    """Return the workflow's own name of a rule; empty for a rule of a workflow that gives them other names."""
    name = rule.name
    if not (name.startswith(_Added.before) and name.endswith(_Added.after)):
        return ""
    return name.removeprefix(_Added.before).removesuffix(_Added.after)


def give_name(name: str) -> str:
    """Return what a rule of the workflow is called in this call."""
    return f"{_Added.before}{name}{_Added.after}"
