"""
Finds the association of a job in SLURM's accounting, which is that of its user, its account and its partition.

An association with a partition counts only for jobs there, and comes before that of the account for all partitions.
"""

import getpass
import os
import re
from collections.abc import Mapping
from typing import Any

from howmanygpus.train.host.slurm import ask

ACCOUNT = "slurm_account"
"""The resource by which a profile names the account of a job."""
MEASURED = "train"
"""The rule whose jobs are the runs."""
BY_ENVIRONMENT = "SBATCH_ACCOUNT"
"""The variable by which sbatch takes the account of a job that names none."""
FIELDS = {
    "qos": ("Name", "Flags", "MaxWall", "MaxTRES", "MaxTRESPerUser", "MaxTRESPerAccount", "GrpTRES", "MaxTRESPerNode"),
    "assoc": ("Account", "Partition", "DefaultQOS", "QOS", "MaxWall", "MaxTRES", "MaxTRESPerNode", "GrpTRES"),
    "user": ("User", "DefaultAccount"),
}
CLUSTER = re.compile(r"^ClusterName\s*=\s*(\S+)", re.MULTILINE)


def find_account(settings: Any) -> str | None:
    """Return the account that Snakemake names for runs, or None if it names none.

    settings: the settings of Snakemake's resources, of a profile or of the command line. An expression of Python stays
    as it is written, so that it is the name of no account.
    """
    for resources in (settings.overwrite_resources.get(MEASURED), settings.default_resources):
        found = resources[ACCOUNT] if resources and ACCOUNT in resources else None
        # Snakemake keeps what it would compute for each job as text.
        text = os.path.expandvars(str(getattr(found, "raw", found) or "")).strip("'\" ,")
        if text:
            # Like the plugin, which gives sbatch the first one of several.
            return re.split(r"[,\s]+", text)[0]
    return None


def find_association(account: str | None, partition: str, config: str) -> dict[str, str] | None:
    """Return the association of this user's job, or None if SLURM does not tell it.

    account: of the job; None for the one that sbatch takes by itself. config: what scontrol says of the cluster.
    """
    user, cluster = getpass.getuser(), CLUSTER.search(config)
    of_cluster = [f"cluster={cluster[1]}"] if cluster else []
    rows = list_rows("assoc", ["where", f"user={user}", *of_cluster])
    account = account or os.environ.get(BY_ENVIRONMENT) or _find_default(user, {row["Account"] for row in rows})
    # SLURM writes the names of accounts in small letters.
    of_account = [row for row in rows if row["Account"].lower() == account.lower()]
    found = [row for row in of_account if row["Partition"] == partition]
    found = found or [row for row in of_account if not row["Partition"]]
    return found[0] if len(found) == 1 else None


def describe_association(association: Mapping[str, str]) -> str:
    """Return whose the limits of an association are, such as `of your account lab in the partition gpu`."""
    partition = association["Partition"]
    return f"of your account {association['Account']}{f' in the partition {partition}' if partition else ''}"


def _find_default(user: str, accounts: set[str]) -> str:
    """Return the account that SLURM takes for a job without one; empty if it does not tell."""
    if len(accounts) == 1:
        return next(iter(accounts))
    rows = list_rows("user", ["where", f"name={user}"]) if accounts else []
    return rows[0]["DefaultAccount"] if len(rows) == 1 else ""


def list_rows(what: str, conditions: list[str]) -> list[dict[str, str]]:
    """Return what the accounting database knows of each QOS, association or user; empty if it does not answer."""
    shown = ["show", what, *conditions, f"format={','.join(FIELDS[what])}"]
    lines = ask(["sacctmgr", "--noheader", "--parsable2", *shown]).splitlines()
    rows = [line.split("|") for line in lines]
    return [dict(zip(FIELDS[what], row, strict=True)) for row in rows if len(row) == len(FIELDS[what])]
