"""The initial weights of a study's runs: drawn, published, or from a file of the user."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from howmanygpus.config.errors import refuse, suggest
from howmanygpus.config.files import expand_path
from howmanygpus.files import sha256_of_file
from howmanygpus.study.networks import IMAGENET

RANDOM = "random"
SUFFIX = ".safetensors"


@dataclass(frozen=True)
class InitialWeights:
    """The initial weights of a variant's runs. path, sha256: of the user's file, if they are from one."""

    word: str = RANDOM
    path: str = ""
    sha256: str = ""

    @property
    def identity(self) -> str:
        """The value whose change reruns the runs. The place of the user's file is not part of it."""
        return f"sha256:{self.sha256}" if self.path else self.word

    @property
    def name(self) -> str:
        """The part of file names that distinguishes these weights; empty for random ones."""
        return f"from-{self.sha256[:12]}" if self.path else self.word.removeprefix(RANDOM)

    @property
    def suffix(self) -> str:
        return f"_{self.name}" if self.name else ""


def find_start(place: str, given: str) -> InitialWeights:
    """Return what a study's `init` names. Raises ConfigError for a file that does not exist. place: of the key."""
    if given in (RANDOM, IMAGENET):
        return InitialWeights(given)
    if not given.endswith(SUFFIX) and "/" not in given:
        remedy = suggest(given, (RANDOM, IMAGENET))
        raise refuse(place, given, "is not known here", f"{remedy} Give a file of yours by its path, with {SUFFIX}")
    path = Path(expand_path(given, place))
    if path.is_dir():
        raise refuse(place, given, "is a folder", f"name a file, such as weights{SUFFIX}")
    if not path.is_file():
        raise refuse(place, given, f"does not exist, seen from {Path.cwd()}", "correct the path")
    if path.suffix != SUFFIX:
        raise refuse(place, given, f"has no name that ends in {SUFFIX}", "store the arrays in that format")
    return InitialWeights(given, str(path), _hash_file(str(path), path.stat().st_mtime_ns))


@cache
def _hash_file(path: str, mtime_ns: int) -> str:
    return sha256_of_file(path)
