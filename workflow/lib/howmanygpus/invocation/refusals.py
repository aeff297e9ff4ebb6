"""Explains sbatch's messages: why a job is refused, and whether the same job may be taken later."""

import re

SAID = re.compile(r"The error message was '(.*?)'\.\n", re.DOTALL)
"""The part of the plugin's message that quotes sbatch. The whole command line follows it."""
TOO_MANY = re.compile(r"MaxSubmitJob|GrpSubmitJob")
"""SLURM's words for more jobs in the queue than a QOS or an association allows."""
FEWER = "lower `jobs` in config.yaml of the profile: so many jobs are submitted at once"
AWAY = re.compile(
    r"contact slurm controller|[Tt]imed out|[Tt]emporar|Zero [Bb]ytes|Connection (refused|reset)|[Ss]tandby|"
    r"(receive|send) failure|Transport endpoint|[Aa]uthentication|writing script/environment|Unspecified error"
)
"""SLURM's words for a controller that may take the same job later (slurm_errno.c)."""
FINAL = re.compile(r"[Ii]nvalid|not (permitted|available|found|be satisfied)|[Dd]enied|violates|[Uu]nrecognized")
"""SLURM's words for a job that it will never take."""
AWAY_S, UNKNOWN_S = 900.0, 30.0
"""How long sbatch is tried again, in seconds: without the controller, and with a message that is not known."""


def may_be_late(message: str) -> bool:
    """Return whether sbatch may have submitted the job although it says that it has not."""
    return bool(re.search("[Tt]imed out", message))


def find_refusal(message: str) -> str:
    """Return in one line sbatch's message or, if sbatch was not called, why the plugin did not submit the job.

    A limit of submitted jobs gets a remedy: the other jobs only need to be submitted later.
    """
    quoted = SAID.search(message)
    said = " ".join((quoted[1] if quoted else message).split())
    return f"SLURM refused the job: {said}" + (f"; {FEWER}" if TOO_MANY.search(said) else "")


def find_patience_s(message: str, has_jobs: bool) -> float:
    """Return how long sbatch is tried again after a message. has_jobs: whether jobs of this call go on."""
    if not (quoted := SAID.search(message)):
        return 0.0
    if TOO_MANY.search(message):
        return float("inf") if has_jobs else AWAY_S
    if AWAY.search(message):
        return AWAY_S
    return 0.0 if FINAL.search(quoted[1]) else UNKNOWN_S
