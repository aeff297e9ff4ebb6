"""
Tells targets from the values of options in a command line of Snakemake.

Some of its options take several values, so Snakemake takes a target behind such a value for one more of them:
`--configfile mine.yaml digits` names two config files.
"""

import os
import re
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import yaml

from howmanygpus.plan.config.errors import ConfigError, suggest
from howmanygpus.plan.config.files import read_yaml
from howmanygpus.plan.own.naming import short_name

SUFFIXES = (".yaml", ".yml", ".json")
QUIETNESS = ("all", "host", "progress", "reason", "rules")
RULE = re.compile(r"^rule (\w+):", re.MULTILINE)


CONFIG_FILES = ("--configfile", "--configfiles")
NEED_A_VALUE = (*CONFIG_FILES, "--logger")
"""Options whose first value is one, whatever it looks like."""


def _may_be_config_file(word: str) -> bool:
    is_result = os.path.relpath(word).startswith("results/")
    # No step makes YAML, but a script may write a config file among the results.
    return word.endswith((".yaml", ".yml")) or (not is_result and (word.endswith(SUFFIXES) or Path(word).is_file()))


def _is_logger(word: str) -> bool:
    name = word.replace("-", "_")
    return name.isidentifier() and find_spec(f"snakemake_logger_plugin_{name}") is not None


def _is_setting(word: str) -> bool:
    return "=" in word


def _is_quietness(word: str) -> bool:
    return word in QUIETNESS


VALUES: dict[str, Callable[[str], bool]] = {
    **dict.fromkeys(CONFIG_FILES, _may_be_config_file),
    **dict.fromkeys(("--config", "-C"), _is_setting),
    **dict.fromkeys(("--quiet", "-q"), _is_quietness),
    "--logger": _is_logger,
}
"""What tells a value of an option from a target."""


def separate_targets(words: list[str]) -> list[str]:
    """Return Snakemake's arguments with the targets that stand behind values of options at the front.

    Raises ConfigError for config files that do not exist, and for such words that are neither a value nor a target.
    """
    end = words.index("--") if "--" in words else len(words)
    kept: list[str] = []
    moved: list[tuple[str, str]] = []
    files = _find_joined(words[:end])
    option, is_first = "", False
    for word in words[:end]:
        if word.startswith("-"):
            option, is_first = word, True
        elif option in VALUES and not (is_first and option in NEED_A_VALUE) and not VALUES[option](word):
            moved.append((word, option))
            continue
        else:
            files += [word] if option in CONFIG_FILES else []
            is_first = False
        kept.append(word)
    _check_files(files)
    for word, option in moved:
        _check_target(word, option, files)
    return [*(word for word, _ in moved), *kept, *words[end:]]


def _find_joined(words: list[str]) -> list[str]:
    """Return the config files that are joined to their option by `=`."""
    joined = (word.partition("=") for word in words if word.startswith("--configfile"))
    return [file for _, equals, file in joined if equals]


def _check_files(files: list[str]) -> None:
    for file in files:
        if Path(file).exists():
            _check_text(file)
            continue
        if file in list_targets([]):
            remedy = f"{file} is a target: put it before the options, and name a config file behind this one"
        else:
            remedy = suggest(file, _list_files()) if _list_files() else "give the path of an existing file"
        raise ConfigError(f"--configfile: there is no file {file}; {remedy}")


def _check_text(file: str) -> None:
    """Raise ConfigError for a file that Snakemake could not read, with the line at fault."""
    try:
        content = yaml.safe_load(Path(file).read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        byte = f"line {line} has the byte 0x{error.object[error.start]:02x}"
        raise ConfigError(f"--configfile: {file} is not in UTF-8: {byte}; save it in UTF-8") from None
    except yaml.YAMLError as error:
        # Only errors of marks have a place; the others say everything in their text.
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None) or str(error)
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ConfigError(f"--configfile: {file} is not valid YAML: {where}{problem}; correct it there") from None
    except ValueError:
        # PyYAML gives no place for a date that does not exist.
        read_yaml(file)
        raise
    except OSError as error:
        raise ConfigError(f"--configfile: {file} cannot be read: {error.strerror}; give the path of a file") from None
    if not isinstance(content, dict):
        raise ConfigError(f"--configfile: {file} has no keys; begin it with `studies:`")


def _list_files() -> list[str]:
    return [
        str(path) for pattern in ("*.yaml", "config/*.yaml") for path in Path().glob(pattern) if path.name[0] != "."
    ]


def _check_target(word: str, option: str, files: list[str]) -> None:
    """Raise ConfigError for a word behind the values of an option that cannot be a target."""
    known = list_targets(files)
    if "/" not in word and word not in known:
        kind = "file" if option in CONFIG_FILES else "value of this option"
        usual = [name for name, is_usual in known.items() if is_usual]
        raise ConfigError(f"{option}: {word} is neither an existing {kind} nor a target; {suggest(word, usual)}")


def list_targets(files: list[str]) -> dict[str, bool]:
    """Return the names of the workflow's rules, and of the studies of config files or of the default one.

    The value says whether the name is meant as a target: a study, or a rule that makes nothing itself.
    """
    names: dict[str, bool] = {}
    for path in (Path("Snakefile"), *sorted(Path("workflow", "rules").glob("*.smk"))):
        _, *rules = RULE.split(path.read_text())
        names |= {name: "output:" not in text for name, text in zip(rules[::2], rules[1::2], strict=True)}
    for file in files or ["config/config.yaml"]:
        # What is wrong with a config file is said when Snakemake reads it.
        with suppress(OSError, ValueError, yaml.YAMLError, TypeError, KeyError, AttributeError):
            for name, given in yaml.safe_load(Path(file).read_text())["studies"].items():
                models = given.get("model") if isinstance(given.get("model"), list) else []
                names |= dict.fromkeys([name, *(f"{name}_{short_name(model)}" for model in models)], True)
    return names
