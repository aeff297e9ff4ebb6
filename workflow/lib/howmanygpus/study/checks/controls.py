"""Checks whether a study can have control runs."""

from howmanygpus.config.errors import refuse
from howmanygpus.study.adaptive.keys import CHOOSING, is_adaptive
from howmanygpus.study.controls import NAMES, PREFIX
from howmanygpus.study.study import Study


def check(study: Study) -> None:
    """Raise ConfigError if a study cannot have controls."""
    if not study.config["diagnose"]:
        return
    for name in NAMES:
        if f"{PREFIX}{name}" in study.variants:
            raise refuse(f"{study.place}.variants", f"{PREFIX}{name}", "is the name of a control", "rename the variant")
    if is_adaptive(study.config):
        rule = next((key for key in CHOOSING if study.config[key] is not None), "repeats: auto")
        problem = f"adds runs at the ends of each curve, and {rule} decides where a curve ends while it is measured"
        raise refuse(f"{study.place}.diagnose", True, problem, f"make a study without {rule} for it")
