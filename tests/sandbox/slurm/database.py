"""Run the accounting database of the test cluster, mariadbd and slurmdbd, in the cluster's folder."""

import subprocess
from pathlib import Path

PROGRAMS = ("mariadbd", "mariadb-install-db", "slurmdbd", "sacctmgr", "sacct")
PACKAGES = "mariadb-server slurmdbd"
NONE = "AccountingStorageType=accounting_storage/none"
SLURM_CONF = """AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStoragePass={folder}/munge.sock
AccountingStorageTRES=gres/gpu
AccountingStorageEnforce=associations,limits,qos"""
DATABASE_CONF = """AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
DbdHost=localhost
DbdPort={port}
SlurmUser=root
LogFile={folder}/slurmdbd.log
PidFile={folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=accounting
"""
LIMITS = ("--innodb-buffer-pool-size=64M", "--innodb-log-file-size=16M", "--innodb-lock-wait-timeout=900")
"""mariadbd's limits. slurmdbd requires the last one."""


def environment(folder: Path) -> dict[str, str]:
    """Return the variables that tell slurmdbd the database's socket: its library uses a socket and ignores the port."""
    return {"MYSQL_UNIX_PORT": str(folder / "mariadb.sock")}


def configure(folder: Path, port: int) -> str:
    """Write slurmdbd.conf; return the lines for slurm.conf."""
    conf = folder / "slurmdbd.conf"
    conf.write_text(DATABASE_CONF.format(folder=folder, port=port))
    conf.chmod(0o600)
    return SLURM_CONF.format(folder=folder, port=port)


def create(folder: Path) -> list[str]:
    """Create an empty database; return the command that serves it."""
    place = [f"--datadir={folder / 'mariadb'}", "--user=root"]
    options = ["--skip-test-db", "--auth-root-authentication-method=socket"]
    subprocess.run(["mariadb-install-db", "--no-defaults", *place, *options], check=True, capture_output=True)
    socket = [f"--socket={folder / 'mariadb.sock'}", "--skip-networking", f"--pid-file={folder / 'mariadb.pid'}"]
    return ["mariadbd", "--no-defaults", *place, *socket, "--innodb-flush-log-at-trx-commit=0", *LIMITS]


def is_there(folder: Path) -> bool:
    command = ["mariadb", "--no-defaults", f"--socket={folder / 'mariadb.sock'}", "--execute"]
    return not subprocess.run([*command, "create database if not exists accounting"], capture_output=True).returncode


def answers(cluster) -> bool:
    try:
        cluster.run("sacctmgr", "--noheader", "list", "cluster", timeout_s=60.0)
    except subprocess.SubprocessError:
        return False
    return True


def add_user(cluster) -> None:
    """Register the cluster and an account with the user root at slurmdbd."""
    for what in (["cluster", "pretend"], ["account", "tests"], ["user", "root", "account=tests"]):
        cluster.run("sacctmgr", "--immediate", "add", *what)
