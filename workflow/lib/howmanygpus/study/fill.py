"""The first step of planning: a study with each key that the config leaves out."""

from dataclasses import dataclass
from functools import cached_property

from howmanygpus.config.schema import fill_study, study_defaults
from howmanygpus.settings import TRAINING_KEYS
from howmanygpus.study.largest.sizes import MAX


@dataclass(frozen=True)
class FilledStudy:
    """A study as the config gives it. Machine, data and model are not looked at.

    place: where the config gives it. given: its keys there. config: these with every default filled in.
    """

    name: str
    place: str
    given: dict
    config: dict

    @cached_property
    def variants(self) -> dict[str, dict]:
        """The training settings of each variant."""
        return {variant: self._complete_settings(own) for variant, own in self.config["variants"].items()}

    def _complete_settings(self, overrides: dict) -> dict:
        settings = {key: self.config[key] for key in TRAINING_KEYS} | overrides
        return settings | {"optimizer": self.config["optimizer"] | overrides.get("optimizer", {})}


def fill(name: str, place: str, given: dict) -> FilledStudy:
    """Return a study with every default filled in, and a list where the config may also give a single value."""
    config = fill_study(given)
    num_nodes, sizes = config["num_nodes"], config["per_device_batch_size"]
    lists = {
        "num_nodes": [num_nodes] if isinstance(num_nodes, int) else num_nodes,
        "per_device_batch_size": [MAX] if sizes == MAX else sizes,
    }
    # Defaults filled into a variant's optimizer would override the study's values.
    variants = {
        variant: config["variants"][variant] | {key: own[key] for key in ("optimizer",) if key in own}
        for variant, own in given.get("variants", study_defaults()["variants"]).items()
    }
    return FilledStudy(name, place, given, config | lists | {"variants": variants})
