"""Parameters of rules that Snakemake compares and records as another text, so that a new place reruns nothing."""

import json
from collections.abc import Mapping


class AliasedParameter(str):
    """A parameter that is recorded as another text, such as an earlier parameter with the same meaning.

    Snakemake compares and records the representation, which is that of the other text. Commands get the text itself.
    """

    def __new__(cls, text: str, recorded: str):
        made = super().__new__(cls, text)
        made._recorded = recorded  # type: ignore[attr-defined]
        return made

    def __repr__(self) -> str:
        return repr(self._recorded)  # type: ignore[attr-defined]


def replace_paths_by_names(text: str, places: Mapping[str, str]) -> AliasedParameter:
    """Return JSON that is recorded with a name in place of each path. places: the names, by the paths."""
    recorded = text
    for path, name in places.items():
        recorded = recorded.replace(json.dumps(path), json.dumps(name))
    return AliasedParameter(text, recorded)
