"""Explains sbatch's messages: why a job is refused, and whether the same job may be taken later."""

import re

SAID = re.compile(r"The error message was '(.*?)'\.\n    sbatch call:", re.DOTALL)
"""The part of the plugin's message that quotes sbatch. The whole command line follows it."""
REASON = re.compile(r"submission failed: (.*)")
"""SLURM's reason in sbatch's last line. What a site's plugin says stands on lines before it."""
ERROR = re.compile(r"^sbatch: error: (.*)", re.MULTILINE)
UNSPECIFIED = "Unspecified error"
"""SLURM's reason if a site's plugin gives none, and for some lost connections (SLURM_ERROR in slurm_errno.h)."""
TOO_MANY = re.compile(r"MaxSubmitJob|GrpSubmitJob")
"""SLURM's words for more jobs in the queue than a QOS or an association allows."""
FEWER = "lower `jobs` in config.yaml of the profile: so many jobs are submitted at once"
AWAY = re.compile(
    r"contact slurm controller|[Tt]imed out|temporarily un(available|able)|Zero [Bb]ytes|Connection (refused|reset)|"
    r"standby mode|(receive|send) failure|Transport endpoint|uthentication (error|cred)|Munge|"
    r"writing script/environment"
)
"""SLURM's words for a controller that may take the same job later (slurm_errno.c)."""
FINAL = re.compile(
    r"[Ii]nvalid|not (permitted|available|found|be satisfied)|[Dd]enied|violates|[Uu]nrecognized|cli_filter"
)
"""SLURM's words for a job that it will never take."""
AWAY_S, UNKNOWN_S = 900.0, 30.0
"""How long sbatch is tried again, in seconds: without the controller, and with a message that is not known."""


def _quote(message: str) -> str:
    """Return what sbatch said; empty if it was not called."""
    quoted = SAID.search(message)
    return quoted[1] if quoted else ""


def may_be_late(message: str) -> bool:
    """Return whether sbatch may have submitted the job although it says that it has not."""
    return bool(re.search("[Tt]imed out", _quote(message)))


def find_refusal(message: str) -> str:
    """Return in one line sbatch's message or, if sbatch was not called, why the plugin did not submit the job.

    A limit of submitted jobs gets a remedy: the other jobs only need to be submitted later.
    """
    said = " ".join((_quote(message) or message).split())
    return f"SLURM refused the job: {said}" + (f"; {FEWER}" if TOO_MANY.search(said) else "")


def find_patience_s(message: str, has_jobs: bool) -> float:
    """Return how long sbatch is tried again after a message. has_jobs: whether jobs of this call go on.

    SLURM's reason decides. If it is unspecified, what sbatch said besides does: those are the words of a site's plugin
    that refuses the job, unless they are SLURM's about the controller.
    """
    if not (said := _quote(message)):
        return 0.0
    if TOO_MANY.search(said):
        return float("inf") if has_jobs else AWAY_S
    reasons = REASON.findall(said) or said.splitlines()[-1:]
    besides = [line for line in ERROR.findall(said) if not REASON.search(line) and line not in reasons[-1]]
    deciding = "\n".join(besides) if reasons[-1].strip() == UNSPECIFIED else reasons[-1]
    if AWAY.search(deciding):
        return AWAY_S
    return 0.0 if besides or FINAL.search(deciding) else UNKNOWN_S


def is_final(message: str) -> bool:
    """Return whether sbatch has said that SLURM will never take the job."""
    return bool(_quote(message)) and not find_patience_s(message, has_jobs=True)
