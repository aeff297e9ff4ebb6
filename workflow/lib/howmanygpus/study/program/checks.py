"""Checks the program of a study before anything starts: its command, how it starts, where it runs, how it reports."""

import difflib
import itertools
import os
import re
import shlex
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

from howmanygpus.config.errors import ConfigError, refuse, suggest
from howmanygpus.config.findings import Finding
from howmanygpus.measure.program.command import PLACEHOLDERS, CommandError, parse_placeholders
from howmanygpus.measure.program.reports import COUNTS, NUMBER_FORM, PER_CENT, PLAIN_GROUPS
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.study.largest.sizes import MAX

STUDY_KEYS = (
    "program",
    "devices",
    "num_gpus",
    "num_nodes",
    "per_device_batch_size",
    "scaling",
    "precision",
    "repeats",
    "repeats_precision",
    "repeats_limit",
    "seed",
    "exclude",
    "warmup_steps",
    "quality",
    "published",
    "deviations",
    "diagnose",
    "time_limit_min",
    "stop_below_efficiency",
    "budget_device_h",
    "cases",
    "predict",
    "worth_doubling",
    "deadline_h",
    "budget",
)
"""Keys that a study with a program can have."""
LAUNCHERS = ("torchrun", "accelerate", "deepspeed", "horovodrun", "mpirun", "mpiexec", "srun", "composer", "colossalai")
"""Programs that start a script, and are named in other commands than Python's."""
INTERPRETER = re.compile(r"python[\d.]*|julia|Rscript|bash|sh|dash|zsh|ksh")
SCRIPTS = (".py", ".sh", ".jl", ".R")
SHELL = set("{}$*`?;&|()<>")
"""Characters of words that are more than a name, which only the shell resolves."""
USUAL = {"python", "python3", *LAUNCHERS}
LIKENESS = 0.8
"""Ratio of difflib above which the name of a program is probably a misspelt usual one."""
LISTS = {
    "per_device_batch_size": ("per_device_batch_size", "global_batch_size"),
    "precision": ("precision",),
}
"""Lists of a study, and the placeholders that pass a run's entry to the command."""


def check_keys(place: str, given: dict) -> None:
    """Raise ConfigError for a key of a study that has no effect on a program."""
    for key in given:
        if key not in STUDY_KEYS:
            remedy = f"remove it; a study with a program has {', '.join(STUDY_KEYS)}"
            raise refuse(f"{place}.{key}", given[key], "has no effect on a program", remedy)


def check_name(place: str, name: str) -> None:
    if name in FRAMEWORKS:
        raise refuse(f"{place}.name", name, "is the name of a framework", "choose another name")


def check_command(place: str, program: dict, config: dict) -> None:
    """Raise ConfigError for unknown placeholders, entries that the command cannot tell apart, or a missing program."""
    where, command, known = f"{place}.command", program["command"], [*PLACEHOLDERS, *program["axes"]]
    try:
        used = parse_placeholders(command)
    except CommandError as error:
        raise ConfigError(f'{where}: "{command}" {error}') from None
    for name in used:
        if name not in known:
            remedy = f"write {{{{{name}}}}} for braces of the shell; or {suggest(name, known)}"
            raise refuse(where, f"{{{name}}}", "is no placeholder", remedy)
    for axis in program["axes"]:
        if axis not in used:
            remedy = f"write {{{axis}}} into the command or remove the axis"
            raise refuse(f"{place}.axes.{axis}", program["axes"][axis], "is not used by the command", remedy)
    for key, placeholders in LISTS.items():
        if (len(config[key]) > 1 or MAX in config[key]) and not set(placeholders) & set(used):
            words = " or ".join(f"{{{name}}}" for name in placeholders)
            problem, remedy = "makes runs that all do the same", f"write {words} into the command or give one entry"
            raise refuse(f"{place.rpartition('.')[0]}.{key}", config[key], problem, remedy)
    for position, axis in enumerate(program["same_work"]):
        if axis not in program["axes"]:
            remedy = suggest(axis, program["axes"]) if program["axes"] else "add it to `axes` or remove it"
            raise refuse(f"{place}.same_work[{position}]", axis, "is no axis", remedy)
    _check_program(where, program)


def _check_program(where: str, program: dict) -> None:
    """Raise ConfigError if the command is none of the shell, or if the program with which it begins does not exist."""
    try:
        words = _list_words(program["command"])
    except ValueError as error:
        raise refuse(where, program["command"], f"is no command of the shell ({error})", "close the quote") from None
    if not words:
        raise refuse(where, program["command"], "starts no program", "write the command that trains")
    if _is_missing(words[0], program):
        remedy = "correct it, `chmod +x` it, or name `environment`, `python` or `modules`"
        raise refuse(where, words[0], "is no program that can be executed", remedy)


def _list_words(command: str) -> list[str]:
    """Return the words of a command behind its assignments. Raises ValueError for an open quote."""
    words = shlex.split(command, comments=True)
    return list(itertools.dropwhile(re.compile(r"\w+=").match, words))


def _is_missing(name: str, program: dict) -> bool:
    """Whether it is known that a program does not exist where the command runs."""
    if set(name) & SHELL:
        return False
    if "/" in name:
        path = Path(name).expanduser()
        is_inside = program["container"] and path.is_absolute()
        return not is_inside and shutil.which(path.absolute()) is None
    if program["modules"] or program["container"] or program["environment"]:
        return False
    return not (_is_found(name, program) or _is_known_to_bash(name))


def _is_known_to_bash(word: str) -> bool:
    """Whether a word is a keyword or a builtin of bash, which runs the command, or a function that it inherits."""
    bash = shutil.which("bash") or shutil.which("bash", path=os.defpath)
    if bash is None:
        return True
    return subprocess.run([bash, "-c", 'type -t -- "$1"', bash, word], capture_output=True).returncode == 0


def _is_found(name: str, program: dict) -> bool:
    """Whether a program is in PATH, or beside the interpreter of the study."""
    folders = [str(Path(program["python"]).parent)] if program["python"] else []
    return shutil.which(name, path=os.pathsep.join([*folders, os.environ.get("PATH", os.defpath)])) is not None


def check_surroundings(place: str, program: dict) -> None:
    """Raise ConfigError for an interpreter, an environment or a container that does not exist, or several of these."""
    given = [key for key in ("environment", "python", "container") if program[key]]
    if len(given) > 1:
        raise refuse(f"{place}.{given[1]}", program[given[1]], f"is given beside `{given[0]}`", "remove one of them")
    environment, python, container = (program[key] for key in ("environment", "python", "container"))
    if environment and environment not in FRAMEWORKS:
        raise refuse(f"{place}.environment", environment, "is not a known framework", suggest(environment, FRAMEWORKS))
    if python and not (Path(python).is_file() and os.access(python, os.X_OK)):
        raise refuse(f"{place}.python", python, "is no interpreter that can be executed", "give the path of one")
    if container and "://" not in container and not Path(container).exists():
        raise refuse(f"{place}.container", container, "does not exist", "give an image's file or an address")
    if container and not (program["modules"] or shutil.which("apptainer")):
        remedy = "install it, or name its module under `modules`"
        raise refuse(f"{place}.container", container, "needs apptainer, which is not in PATH", remedy)
    if program["start"] == "mpirun" and not environment and not _is_found("mpirun", program):
        remedy = "load its module before calling snakemake, or name an interpreter that has it beside itself"
        raise refuse(f"{place}.start", "mpirun", "is not in PATH", remedy)


def check_report(place: str, program: dict, quality: dict, gives_thresholds: bool) -> None:
    """Raise ConfigError for regular expressions that cannot report steps or quality."""
    groups: set[str] = set()
    names_epochs = any(find_groups(text) == {"epoch"} for text in program["report"] or ())
    for position, text in enumerate(program["report"] or ()):
        where = f"{place}.report[{position}]"
        try:
            own = set(re.compile(text).groupindex)
        except re.error as error:
            raise refuse(where, text, f"is no regular expression ({error})", "correct it") from None
        if in_per_cent := [name for name in COUNTS if name in own and _is_per_cent(text, name)]:
            remedy = r"let it go on to the number behind it, as in %.* (?P<step>\d+)/\d+ \["
            raise refuse(where, text, f"has the {in_per_cent[0]} in per cent, which is no count", remedy)
        if not own & {"step", "epoch"} and not (own - set(PLAIN_GROUPS) and names_epochs):
            remedy = r"name a group, as in step (?P<step>\d+) or epoch (?P<epoch>\d+)"
            raise refuse(where, text, "has neither a group step nor a group epoch", remedy)
        metrics = own - set(PLAIN_GROUPS)
        if metrics and "epoch" not in own and not names_epochs:
            remedy = r"add a group epoch, here or in an expression of its own, or use (?:...) for other groups"
            raise refuse(where, text, f"has the metric {min(metrics)} and no group epoch", remedy)
        groups |= {name.removesuffix(PER_CENT) for name in metrics} or own
    if program["report"] and "step" not in groups:
        remedy = r"add one such as step (?P<step>\d+), from which rates are computed"
        raise refuse(f"{place}.report", program["report"], "has no expression for steps alone", remedy)
    if program["report"] and gives_thresholds and quality["metric"] not in groups:
        problem = f"has no group {quality['metric']}, on whose thresholds runs are judged"
        remedy = f"add an expression with (?P<{quality['metric']}>...) or remove quality.thresholds"
        raise refuse(f"{place}.report", program["report"], problem, remedy)


def _is_per_cent(text: str, name: str) -> bool:
    """Whether a sign of per cent follows the number of a group."""
    behind = text.partition(f"(?P<{name}>{extract_group(text, name)})")[2]
    return bool(re.match(r"(?:\)|\?|\\s[*+?]?| )*\\?%", behind))


def find_groups(text: str) -> set[str]:
    """Return the names of the groups of a regular expression; none if it is none."""
    try:
        return set(re.compile(text).groupindex)
    except re.error:
        return set()


def warn_about_files(place: str, program: dict, files: dict[str, str]) -> list[Finding]:
    """Return a warning for each file in the command whose change would rerun nothing."""
    known = {os.path.realpath(path) for path in files}
    words = dict.fromkeys(word for word in shlex.split(program["command"], comments=True) if "{" not in word)
    own = [word for word in words if Path(word).suffix in SCRIPTS and Path(word).is_file()]
    return [
        Finding(f"{place}.files", word, "is in the command and not here, so that its change reruns nothing", "add it")
        for word in own
        if os.path.realpath(word) not in known
    ]


def warn_about_programs(place: str, program: dict) -> list[Finding]:
    """Return a warning for a program with nearly the name of a usual one, and for a script that does not exist.

    Only the program with which the command begins is looked at, and its script; the first run tells of others.
    """
    (name, *arguments), where = _list_words(program["command"]), f"{place}.command"
    near = difflib.get_close_matches(name, USUAL, n=1, cutoff=LIKENESS)
    if near and name not in USUAL and not _is_found(name, program):
        problem = "is no program that can be executed here"
        return [Finding(where, name, problem, f"did you mean {near[0]}?")]
    script = _find_script(Path(name).name, arguments)
    if program["container"] or not script or Path(script).expanduser().exists():
        return []
    return [Finding(where, script, f"does not exist, seen from {Path.cwd()}", "correct the path")]


def _find_script(name: str, arguments: list[str]) -> str:
    """Return the script of an interpreter or a launcher; empty if there is none, or if only the shell knows it."""
    if not INTERPRETER.fullmatch(name) and name not in LAUNCHERS:
        return ""
    before = itertools.takewhile(lambda word: word not in ("-m", "-c", "-e", "-"), arguments)
    script = next((word for word in before if Path(word).suffix in SCRIPTS), "")
    return "" if set(script) & SHELL else script


def warn_about_report(place: str, program: dict, metric: str) -> list[Finding]:
    """Return a warning if regular expressions have metrics, but not the one by which the study is judged."""
    groups = {group for text in program["report"] or () for group in find_groups(text)}
    others = sorted(name.removesuffix(PER_CENT) for name in groups - set(PLAIN_GROUPS))
    if not others or metric in others:
        return []
    problem = f"has the group {' and '.join(others)} and not {metric}, the study's quality.metric"
    problem += ", so that runs have no quality"
    return [Finding(f"{place}.report", "", problem, "rename the group or set quality.metric")]


NUMBERS = {"loss": ("0.25", "-0.12", "2.0e-05", "nan", "inf")}
"""Forms of a number that programs print, which the group of a number must take."""
METRICS = ("0.25", "2.0e-05")
STARTS_PROCESSES = re.compile(
    r"(?<![\w.-])(?:torchrun|torch\.distributed\.(?:run|launch)|accelerate launch|deepspeed|horovodrun)(?![\w./-])"
)
"""Launchers that start a process for each device."""


def warn_about_numbers(place: str, program: dict) -> list[Finding]:
    """Return a warning for each group that does not take all forms of numbers that programs print."""
    doubts = []
    for position, text in enumerate(program["report"] or ()):
        for name in sorted(find_groups(text) - set(COUNTS)):
            forms, own = NUMBERS.get(name, METRICS), extract_group(text, name)
            if own and (missed := [form for form in forms if not re.fullmatch(own, form)]):
                problem = f"the group {name} does not take {', '.join(missed)}"
                where, remedy = f"{place}.report[{position}]", f"write (?P<{name}>{NUMBER_FORM})"
                doubts.append(Finding(where, "", problem, remedy))
    return doubts


def extract_group(text: str, name: str) -> str:
    """Return the expression inside a named group; empty if it is none by itself."""
    begin = text.index(f"(?P<{name}>") + len(f"(?P<{name}>")
    for end in (found.start() for found in re.finditer(r"\)", text) if found.start() >= begin):
        with suppress(re.error):
            return re.compile(text[begin:end]).pattern
    return ""


def warn_about_launcher(place: str, program: dict) -> list[Finding]:
    """Return a message if each of several processes would start as many of its own."""
    found = STARTS_PROCESSES.search(program["command"])
    if not found or program["start"] not in ("per_device", "mpirun"):
        return []
    problem = f"with start: {program['start']}, each process starts {found[0]}, which starts processes of its own"
    return [Finding(f"{place}.command", "", problem, f"write start: once or per_node, or leave {found[0]} out")]


def warn_about_ranks(place: str, program: dict, num_nodes: int) -> list[Finding]:
    """Return a message if torchrun chooses the node of its rank 0, because only the first node's reports are read."""
    if num_nodes == 1 or "c10d" not in program["command"]:
        return []
    problem = "with --rdzv-backend c10d, torchrun may put rank 0 on another node than the first one"
    problem += ", and nothing that it reports there is read"
    options = "--node-rank $NODE_RANK --master-addr $MASTER_ADDR --master-port $MASTER_PORT"
    return [Finding(f"{place}.command", "", problem, f"write `{options}` instead (docs/program.md)")]
