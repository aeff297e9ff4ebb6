"""
Whether a login shell came as far as its command.

Only a login shell defines `module`, and it reads its profile first. A profile that ends or replaces the shell, as by
`exec zsh`, leaves the command out, and the exit status is 0.
"""

from pathlib import Path

REACHED = "howmanygpus: the command begins"
"""The line that a command prints first."""
ANNOUNCE = f"printf '\\n%s\\n' '{REACHED}'; "
"""Begin of a shell's command that prints it, also if the profile has left a line open.

It adds no line, so that the shell names the line of the command in its errors.
"""
PROFILES = (".bash_profile", ".bash_login", ".profile")
"""A login shell of bash reads the first of these in the home folder, after /etc/profile (bash(1))."""
REMEDY = (
    "ends or replaces it, as `exec zsh` does; let it do so only in a shell in which you type: "
    "`[[ $- == *i* ]] && exec zsh`"
)
ENDED = "the login shell (bash -l) that loads the modules ended before its command"
UNREACHED = f"{ENDED}: a profile (/etc/profile, {', '.join(f'~/{name}' for name in PROFILES)}) {REMEDY}"


def explain_unreached() -> str:
    """Return why a shell that loads modules did not run its command, with the remedy."""
    existing = [path for name in PROFILES if (path := Path.home() / name).exists()]
    own = f"{existing[0]} or /etc/profile" if existing else "/etc/profile"
    return f"{ENDED}: {own} {REMEDY}"
