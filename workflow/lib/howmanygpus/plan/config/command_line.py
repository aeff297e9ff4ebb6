"""
Tells targets from the values of options in a command line of Snakemake.

Some of its options take several values, so Snakemake takes a target after such a value for another value:
`--configfile mine.yaml digits` names two config files. For a target that does not exist, its message says only that no
rule makes it.
"""

import os
import re
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import yaml

from howmanygpus.plan.config.errors import ConfigError, suggest
from howmanygpus.plan.config.files import check_config_files
from howmanygpus.plan.own.model import short_name

DEFAULT_CONFIG = "config/config.yaml"
SUFFIXES = (".yaml", ".yml", ".json")
QUIETNESS = ("all", "host", "progress", "reason", "rules")
TRIGGERS = ("code", "input", "mtime", "params", "software-env")
RULE = re.compile(r"^rule (\w+):", re.MULTILINE)


CONFIG_FILES = ("--configfile", "--configfiles")
NEED_A_VALUE = (*CONFIG_FILES, "--logger")
"""Options after which the first word is always a value, whatever it looks like."""
TAKE_RULES = ("--forcerun", "-R", "--until", "-U", "--omit-from", "-O")
"""Options whose values are rules or files."""
TAKE_NONE = (
    "-n",
    "--dry-run",
    "--dryrun",
    "-p",
    "--printshellcmds",
    "-F",
    "--forceall",
    "-f",
    "--force",
    "-t",
    "--touch",
)
TAKE_ONE = ("--profile", "--cores", "-c", "--jobs", "-j", "--executor", "-e")
"""Options with at most one value, which users write in front of targets: the word after that is a target."""
ELSEWHERE = ("-s", "--snakefile", "-d", "--directory", "--workflow-profile")
"""Options with which the rules and studies may be other than those of this folder."""


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


def _is_trigger(word: str) -> bool:
    return word in TRIGGERS


VALUES: dict[str, Callable[[str], bool]] = {
    **dict.fromkeys(CONFIG_FILES, _may_be_config_file),
    **dict.fromkeys(("--config", "-C"), _is_setting),
    **dict.fromkeys(("--quiet", "-q"), _is_quietness),
    "--logger": _is_logger,
    "--rerun-triggers": _is_trigger,
}
"""Test of each option that tells its values from targets."""


def separate_targets(words: list[str]) -> list[str]:
    """Return Snakemake's arguments with the targets after values of options moved to the front.

    Raises ConfigError for config files that do not exist, and for words that are neither a value nor a target.
    """
    end = words.index("--") if "--" in words else len(words)
    files = _find_files(words[:end])
    _check_files(files)
    known = {} if _has_other_studies(words[:end]) else list_targets(files)
    kept: list[str] = []
    moved: list[tuple[str, str]] = []
    asked = words[end + 1 :]
    option, values = "", list[str]()
    for word in words[:end]:
        if word.startswith("-"):
            option, values = word, []
        elif _is_swallowed(word, option, values, known):
            moved.append((word, option))
            continue
        else:
            asked += [word] if _is_asked_for(option, values) else []
            values.append(word)
        kept.append(word)
    for word, option in moved:
        _check_target(word, option, files)
    for word in asked if known else ():
        _check_asked(word, known, files)
    return [*(word for word, _ in moved), *kept, *words[end:]]


def _is_swallowed(word: str, option: str, values: list[str], known: dict[str, bool]) -> bool:
    """Return whether a word is a target, although Snakemake would take it for a value of the option before it.

    values: those of the option in front of the word. known: see list_targets.
    """
    if option in TAKE_RULES:
        # After studies, a further study is one more value; after steps it is a target.
        return bool(values and known and "/" not in word) and not known.get(values[0]) and known.get(word, True)
    return option in VALUES and bool(values or option not in NEED_A_VALUE) and not VALUES[option](word)


def _is_asked_for(option: str, values: list[str]) -> bool:
    """Return whether a word after an option and its values so far is a target in any case."""
    return option in ("", *TAKE_NONE) or "=" in option or (option in TAKE_ONE and len(values) > 0)


def _has_other_studies(words: list[str]) -> bool:
    """Return whether studies may be defined outside this folder and the config files of the command line."""
    profiles = [os.environ.get("SNAKEMAKE_PROFILE", "")]
    for before, word in zip(["", *words], words, strict=False):
        option, _, value = word.partition("=")
        if option in ELSEWHERE or word.startswith("studies="):
            return True
        if "--profile" in (before, option):
            profiles.append(word if before == "--profile" else value)
    files = [Path(profile, "config.yaml") for profile in filter(None, profiles)]
    return any(not file.is_file() or "configfile" in file.read_text(errors="replace") for file in files)


def _find_files(words: list[str]) -> list[str]:
    """Return the config files that a command line names."""
    files, option, is_first = _find_joined(words), "", False
    for word in words:
        if word.startswith("-"):
            option, is_first = word, True
        elif option in CONFIG_FILES and (is_first or _may_be_config_file(word)):
            files.append(word)
            is_first = False
    return files


def _find_joined(words: list[str]) -> list[str]:
    """Return the config files that are joined to their option by `=`."""
    joined = (word.partition("=") for word in words if word.startswith("--configfile"))
    return [file for _, equals, file in joined if equals]


def _check_files(files: list[str]) -> None:
    for file in files:
        if Path(file).exists():
            _check_file(file)
            continue
        if file in list_targets([]):
            remedy = f"{file} is a target: put it before the options, and name a config file behind this one"
        else:
            remedy = suggest(file, _list_files()) if _list_files() else "give the path of an existing file"
        raise ConfigError(f"--configfile: there is no file {file}; {remedy}")


def _check_file(file: str) -> None:
    """Raise ConfigError with the line at fault, because Snakemake's own error says less."""
    try:
        check_config_files([file])
    except ConfigError as error:
        raise ConfigError(f"--configfile: {error}") from None


def _list_files() -> list[str]:
    return [
        str(path) for pattern in ("*.yaml", "config/*.yaml") for path in Path().glob(pattern) if path.name[0] != "."
    ]


def _check_target(word: str, option: str, files: list[str]) -> None:
    """Raise ConfigError for a word after the values of an option that cannot be a target."""
    known = list_targets(files)
    if "/" not in word and word not in known:
        kind = "file" if option in CONFIG_FILES else "value of this option"
        usual = [name for name, is_usual in known.items() if is_usual]
        raise ConfigError(f"{option}: {word} is neither an existing {kind} nor a target; {suggest(word, usual)}")


def _check_asked(word: str, known: dict[str, bool], files: list[str]) -> None:
    """Raise ConfigError for a target that is neither a file nor known."""
    if "/" not in word and word not in known:
        usual = [name for name, is_usual in known.items() if is_usual]
        where = " or ".join(files or [DEFAULT_CONFIG])
        raise ConfigError(f"{word} is no target: it is neither a rule nor a study of {where}; {suggest(word, usual)}")


def list_targets(files: list[str]) -> dict[str, bool]:
    """Return the names of the workflow's rules, and of the studies of config files or of the default one.

    The value says whether the name is meant as a target: a study, or a rule that makes nothing itself.
    """
    names: dict[str, bool] = {}
    for path in (Path("Snakefile"), *sorted(Path("workflow", "rules").glob("*.smk"))):
        _, *rules = RULE.split(path.read_text())
        names |= {name: "output:" not in text for name, text in zip(rules[::2], rules[1::2], strict=True)}
    for file in files or [DEFAULT_CONFIG]:
        # Errors in a config file are reported when Snakemake reads it.
        with suppress(OSError, ValueError, yaml.YAMLError, TypeError, KeyError, AttributeError):
            for name, given in yaml.safe_load(Path(file).read_text())["studies"].items():
                models = given.get("model") if isinstance(given.get("model"), list) else []
                names |= dict.fromkeys([name, *(f"{name}_{short_name(model)}" for model in models)], True)
    return names
