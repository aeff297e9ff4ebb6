"""What planning says about a config and a machine: each problem with its place, its value and its remedy."""

from dataclasses import dataclass
from enum import Enum


class Severity(Enum):
    """What follows from a finding."""

    ERROR = "nothing starts"
    WARNING = "it is said, because the value may be intended"


@dataclass(frozen=True)
class Finding:
    """One problem, in the words of its message.

    place: key of the config, file or option; empty if it is none of these. value: what stands there, as it is shown;
    empty if the problem does not begin with it. remedy: empty for a remark.
    """

    place: str
    value: str | float
    problem: str
    remedy: str = ""
    severity: Severity = Severity.WARNING

    def __str__(self) -> str:
        where, value = self.place and f"{self.place}: ", str(self.value)
        remedy = self.remedy and f"; {self.remedy}"
        return f"{where}{value}{' ' * bool(value)}{self.problem}{remedy}"


def find_error(place: str, value: str | float, problem: str, remedy: str) -> Finding:
    """Return a finding with which nothing starts."""
    return Finding(place, value, problem, remedy, Severity.ERROR)
