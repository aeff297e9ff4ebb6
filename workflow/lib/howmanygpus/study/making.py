"""Makes the studies of a config and describes its data sets. What is wrong with any of them is said in one error."""

from howmanygpus.config.errors import Errors
from howmanygpus.prepare.sources import Description
from howmanygpus.site.machine import Machine
from howmanygpus.study.checks import controls, data, evaluations, initial_weights, protocols, runs
from howmanygpus.study.config.datasets import describe_or_refuse
from howmanygpus.study.controls import add_controls
from howmanygpus.study.fill import fill
from howmanygpus.study.grid import expand
from howmanygpus.study.largest.resolving import resolve_max
from howmanygpus.study.largest.search import Find
from howmanygpus.study.program.study import make_program_study
from howmanygpus.study.resolve import resolve
from howmanygpus.study.study import Study

CHECKS = (data, protocols, controls, initial_weights)
CHECKS_OF_RUNS = (runs, evaluations)


def make_studies(
    groups: dict[str, dict[str, dict]], datasets: dict[str, dict], machine: Machine, find_largest: Find
) -> tuple[dict[str, Study], dict[str, Description]]:
    """Return the studies and the descriptions of all data sets, used ones first, both by name.

    groups: the studies of each key below `studies` as the config gives them, by name. Raises one ConfigError with what
    is wrong with each study and each data set.
    """
    errors, studies = Errors(), dict[str, Study]()
    for group, members in groups.items():
        for name, given in members.items():
            place = f"studies.{group}"
            with errors.collect():
                studies[name] = (
                    make_program_study(name, given, machine, place, find_largest)
                    if "program" in given
                    else make_study(name, given, datasets, machine, place, find_largest)
                )
    descriptions = {study.config["dataset"]: study.description for study in studies.values() if not study.is_program}
    for name, options in datasets.items():
        with errors.collect():
            descriptions[name] = describe_or_refuse(name, options)
    errors.raise_all()
    return studies, descriptions


def make_study(name: str, given: dict, datasets: dict[str, dict], machine: Machine, place: str, find: Find) -> Study:
    """Return a study of the workflow's networks. Raises ConfigError for errors that the schema cannot detect.

    given: the study as the config gives it. find: returns the result of a search for the largest batch.
    """
    study = resolve(fill(name, place, given), datasets, machine)
    for subject in CHECKS:
        subject.check(study)
    study = resolve_max(expand(study), find)
    for subject in CHECKS_OF_RUNS:
        subject.check(study)
    return add_controls(study)
