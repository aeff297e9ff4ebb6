"""
Resolves and checks the learning-rate keys of a study, which single frameworks and variants may override.

In all functions, variants are the complete training settings of each variant, and given is what the config gives.
"""

from howmanygpus.config.errors import refuse, suggest
from howmanygpus.config.findings import Finding
from howmanygpus.settings import BY_FRAMEWORK


def resolve_optimizer(optimizer: dict, framework: str) -> dict:
    """Return the optimizer of one framework's runs, with the framework's own values in place of the general ones."""
    return optimizer | optimizer[BY_FRAMEWORK].get(framework, {}) | {BY_FRAMEWORK: {}}


def check_learning(place: str, frameworks: list[str], variants: dict, given: dict) -> None:
    """Raise ConfigError for values of frameworks that the study lacks, and for steps that the schedule cannot take."""
    for variant, settings in variants.items():
        optimizer, own = settings["optimizer"], given[variant].get("optimizer", {})

        def locate(key: str, variant=variant, own=own) -> str:
            return f"{place}.variants.{variant}.optimizer.{key}" if key in own else f"{place}.optimizer.{key}"

        for framework in optimizer[BY_FRAMEWORK]:
            if framework not in frameworks:
                problem, remedy = "is not one of the study's frameworks", suggest(framework, frameworks)
                raise refuse(locate(BY_FRAMEWORK), framework, problem, remedy)
        _check_steps(locate, optimizer, is_inherited="lr_schedule" in own and "lr_step_epochs" not in own)
        for framework in frameworks:
            warmup = resolve_optimizer(optimizer, framework)["lr_warmup_epochs"]
            if optimizer["lr_schedule"] == "step" and optimizer["lr_step_epochs"][0] < warmup:
                problem = f"begins within the warm-up of {warmup:g} epochs of {framework}"
                remedy = "lower lr_warmup_epochs or give later epochs"
                raise refuse(locate("lr_step_epochs"), optimizer["lr_step_epochs"], problem, remedy)


def _check_steps(locate, optimizer: dict, is_inherited: bool) -> None:
    """Check lr_step_epochs. is_inherited: whether a variant with its own schedule has the steps of the study."""
    schedule, epochs = optimizer["lr_schedule"], optimizer["lr_step_epochs"]
    if schedule == "step" and not epochs:
        problem = "names no epoch at which lr_schedule: step lowers the rate"
        raise refuse(locate("lr_step_epochs"), epochs, problem, "give some, such as [30, 60, 80]")
    if schedule != "step" and epochs and not is_inherited:
        problem = f"belongs to lr_schedule: step, not to {schedule}"
        raise refuse(locate("lr_step_epochs"), epochs, problem, "write lr_schedule: step or leave it out")
    if epochs != sorted(epochs):
        raise refuse(locate("lr_step_epochs"), epochs, "is not in rising order", f"write {sorted(epochs)}")


def warn_about_learning(
    place: str, frameworks: list[str], variants: dict, given: dict, steps_per_epoch: int
) -> list[Finding]:
    """Return a warning for each variant whose runs end before the warm-up, or before a step of the schedule.

    steps_per_epoch: for the largest global batch, with which a number of steps is the largest number of epochs.
    """
    doubts = []
    for variant, settings in variants.items():
        length = settings["epochs"] or settings["steps"] / steps_per_epoch
        where = f"{place}.variants.{variant}" if "optimizer" in given[variant] else place
        optimizers = [resolve_optimizer(settings["optimizer"], framework) for framework in frameworks]
        warmup, steps = max(one["lr_warmup_epochs"] for one in optimizers), settings["optimizer"]["lr_step_epochs"]
        if warmup > length:
            problem = f"are more than the {length:g} epochs of a run of variant {variant}"
            problem += ", whose learning rate never reaches its scaled value"
            place_of_key = f"{where}.optimizer.lr_warmup_epochs"
            doubts.append(Finding(place_of_key, warmup, problem, "lower it or train longer"))
        if settings["optimizer"]["lr_schedule"] == "step" and steps[-1] >= length:
            problem = f"is not reached in the {length:g} epochs of a run of variant {variant}"
            place_of_key = f"{where}.optimizer.lr_step_epochs"
            doubts.append(Finding(place_of_key, steps[-1], problem, "leave it out or train longer"))
    return doubts
