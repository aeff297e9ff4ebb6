"""
Finds the programs and scripts that a command of the shell starts, wherever they stand in it.

The contents of a program's files are part of its runs' settings.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from howmanygpus.config.errors import refuse
from howmanygpus.config.files import expand_path
from howmanygpus.files import sha256_of_file

MAX_BYTES = 100 * 2**20
"""Limit of the files' size. Every call of Snakemake reads them, so they should not include data."""


def expand_paths(place: str, program: dict) -> dict:
    """Return the program with `~` and variables expanded in the paths of its interpreter and its container."""
    given = {key: program[key] for key in ("python", "container") if program[key]}
    return program | {key: expand_path(path, f"{place}.{key}") for key, path in given.items()}


def hash_program_files(place: str, given: list[str]) -> dict[str, str]:
    """Return the SHA-256 of each file, by its path; those of a folder are all files below it that are not hidden.

    Raises ConfigError for a path that does not exist, a folder without files, and files that cannot be read or are too
    large.
    """
    found: dict[str, str] = {}
    for position, text in enumerate(given):
        where = f"{place}[{position}]"
        paths = _list_files(Path(expand_path(text, where)))
        if not paths:
            raise refuse(where, text, f"is no file or folder with files, seen from {Path.cwd()}", "correct the path")
        if (size := sum(path.stat().st_size for path in paths)) > MAX_BYTES:
            remedy = "name the code alone: each call of snakemake reads these files"
            raise refuse(where, text, f"has {size >> 20} MiB, more than {MAX_BYTES >> 20}", remedy)
        try:
            found |= {str(path): _hash(path, path.stat().st_mtime_ns) for path in paths}
        except OSError as error:
            problem = f"cannot be read at {error.filename}: {error.strerror}"
            raise refuse(where, text, problem, "make it readable, or leave it out") from None
    return dict(sorted(found.items()))


def _list_files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    found = (each for each in path.rglob("*") if each.is_file())
    return [each for each in found if not any(_is_left_out(part) for part in each.relative_to(path).parts)]


def _is_left_out(name: str) -> bool:
    return name.startswith(".") or name == "__pycache__"


@cache
def _hash(path: Path, _changed_at: int) -> str:
    return sha256_of_file(path)


SHELL_WORDS = {
    "cd",
    "pushd",
    "popd",
    "eval",
    "export",
    "source",
    ".",
    "set",
    "unset",
    "ulimit",
    "umask",
    "test",
    "[",
    "[[",
    ":",
    "true",
    "false",
    "echo",
    "printf",
    "trap",
    "module",
    "ml",
    "wait",
    "exit",
    "return",
    "read",
    "sleep",
    "kill",
    "for",
    "case",
    "select",
    "function",
    "declare",
    "local",
    "shift",
    "((",
    "type",
    "hash",
    "alias",
    "shopt",
    "esac",
    "fi",
    "done",
    "in",
    "break",
    "continue",
}
"""Words of the shell that begin a command and name no program."""
BEFORE_COMMANDS = {
    "if",
    "then",
    "elif",
    "else",
    "while",
    "until",
    "do",
    "!",
    "{",
    "{{",
    "time",
    "exec",
    "command",
    "builtin",
    "}",
    "}}",
    "nohup",
    "setsid",
}
"""Words that a command may follow at once."""
WRAPPERS = {
    "env": 0,
    "nice": 0,
    "ionice": 0,
    "timeout": 1,
    "stdbuf": 0,
    "taskset": 0,
    "numactl": 0,
    "chrt": 0,
    "srun": 0,
    "mpirun": 0,
    "mpiexec": 0,
    "orterun": 0,
    "prterun": 0,
    "flock": 1,
    "xvfb-run": 0,
    "catchsegv": 0,
}
"""Programs that start the command behind their options, and the number of words between these and the command."""
SHELLS = ("bash", "sh", "dash", "zsh", "ksh")
INTERPRETER = re.compile(r"python[\d.]*|julia|Rscript|bash|sh|dash|zsh|ksh")
WITH_VALUE = ("-W", "-X", "-o", "-O", "--project")
"""Options of interpreters with which a word follows that is no script."""
LAUNCHERS = ("torchrun", "accelerate", "deepspeed", "horovodrun", "mpirun", "mpiexec", "srun", "composer", "colossalai")
"""Programs that start a script, and are named in other commands than Python's."""
LAUNCHING_MODULES = ("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch", "mpi4py")
"""Modules that start a script, as launchers do."""
SCRIPTS = (".py", ".sh", ".jl", ".R")
UNKNOWN = set("{$*`?~")
"""Characters of words whose value only the shell knows."""
SEPARATORS, REDIRECTIONS = set(";&|()\n"), set("<>")


@dataclass(frozen=True)
class StartedProgram:
    """A program that a command starts, or the folder to which it changes first; the program is then empty.

    folder: where it starts, None if unknown. script: that of an interpreter or a launcher, or the folder.
    """

    program: str
    folder: Path | None
    script: str = ""

    def find(self, name: str) -> Path | None:
        """Return the path that a name means there; None if it is not known."""
        path = Path(name).expanduser()
        return path if path.is_absolute() else self.folder and self.folder / path


def list_started(command: str, folder: Path | None) -> list[StartedProgram]:
    """Return what a command starts, in its order. folder: where it runs. Raises ValueError for an open quote."""
    found: list[StartedProgram] = []
    folders: list[Path | None] = []
    for words, ends in _split(command):
        words = _unwrap(words)
        if words and words[0] in ("cd", "pushd"):
            target = words[1] if len(words) > 1 else "$HOME"
            inner = folder / target if folder and not set(target) & UNKNOWN and target != "-" else None
            if inner and not found and not inner.is_dir():
                found.append(StartedProgram("", folder, target))
            # An earlier command may make the folder.
            folder = inner if inner and inner.is_dir() else None
        elif words and words[0] == "popd":
            folder = None
        elif words:
            found += _describe(words, folder)
        for end in ends:
            if end == "(":
                folders.append(folder)
            elif end == ")" and folders:
                folder = folders.pop()
    return found


def _split(command: str) -> Iterator[tuple[list[str], str]]:
    """Yield the words of each simple command, without redirections, and the separators behind it."""
    lexer = shlex.shlex(command.replace("\\\n", " "), posix=True, punctuation_chars=";&|()<>\n")
    lexer.whitespace, lexer.whitespace_split = " \t\r", True
    words: list[str] = []
    is_target = False
    for token in lexer:
        if set(token) & REDIRECTIONS and set(token) <= REDIRECTIONS | SEPARATORS:
            is_target = True
        elif set(token) <= SEPARATORS:
            yield words, token
            words, is_target = [], False
        elif is_target:
            is_target = False
        else:
            words.append(token)
    yield words, ""


def _unwrap(words: list[str]) -> list[str]:
    """Return a command without assignments, words of the shell and wrappers in front of its program."""
    while words:
        if re.match(r"\w+\+?=", words[0]) or words[0] in BEFORE_COMMANDS:
            words = words[1:]
        elif Path(words[0]).name in WRAPPERS and set(words[1:]) - {"--version", "--help"}:
            words = _skip_options(words[1:], WRAPPERS[Path(words[0]).name])
        else:
            return words
    return []


def _skip_options(words: list[str], num_words: int) -> list[str]:
    """Return the words behind options, their values and `num_words` more.

    Whether a word is the value of the option before it is not known. It is taken for one if a word without an option
    before it follows, unless it is a usual program.
    """
    position = 0
    while position < len(words):
        word = words[position]
        if word == "--":
            position += 1
            break
        if word.startswith("-"):
            following = words[position + 1 : position + 2]
            has_value = "=" not in word and following and not following[0].startswith("-")
            is_program = has_value and (bool(INTERPRETER.fullmatch(following[0])) or following[0] in LAUNCHERS)
            position += 2 if has_value and not is_program and len(words) > position + 2 else 1
        elif re.match(r"\w+=", word):
            position += 1
        else:
            break
    return words[position + num_words :]


def _describe(words: list[str], folder: Path | None) -> list[StartedProgram]:
    """Return what one command starts, with what the text behind `bash -c` starts."""
    program, arguments = words[0], words[1:]
    name = Path(program).name
    if program in SHELL_WORDS or set(program) & UNKNOWN:
        return []
    if name in SHELLS:
        for position, word in enumerate(arguments[:-1]):
            if re.fullmatch(r"-[a-z]*c", word):
                return [StartedProgram(program, folder), *list_started(arguments[position + 1], folder)]
    return [StartedProgram(program, folder, _find_script(name, arguments))]


def _find_script(name: str, arguments: list[str]) -> str:
    """Return the script of an interpreter or a launcher; empty if there is none, or if only the shell knows it."""
    script = ""
    if INTERPRETER.fullmatch(name):
        position = 0
        while position < len(arguments) and arguments[position].startswith("-"):
            if arguments[position] == "-m":
                is_launcher = arguments[position + 1 : position + 2] and arguments[position + 1] in LAUNCHING_MODULES
                return _find_script(LAUNCHERS[0], arguments[position + 2 :]) if is_launcher else ""
            if arguments[position] in ("-", "-c", "-e"):
                return ""
            position += 2 if arguments[position] in WITH_VALUE else 1
        script = arguments[position] if position < len(arguments) else ""
    elif name in LAUNCHERS:
        script = next((word for word in arguments if Path(word).suffix in SCRIPTS), "")
    return "" if set(script) & (UNKNOWN - {"~"}) else script
