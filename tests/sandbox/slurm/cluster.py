"""
Run a real SLURM cluster on this host: one slurmctld, and one slurmd for each of a few nodes with four pretend GPUs.

The daemons run in the foreground as children of this process and die with it; systemd is not used. Allocation,
CUDA_VISIBLE_DEVICES, limits, steps over several nodes and job records are SLURM's own. Only the GPUs are not real.
"""

import functools
import os
import shutil
import signal
import socket
import stat
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import psutil

from hanging import HANG_S
from howmanygpus.measure.host.processes import die_with_parent
from howmanygpus.measure.launch.rendezvous import reserve_port
from howmanygpus.site.jobs.invocations import is_alive, read_start_ticks
from slurm import database

GPUS_PER_NODE = 4
CORES_PER_NODE = 8
MEMORY_PER_NODE_MB = 16000
PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "srun", "squeue", "sinfo")
SYSTEM_CONF = Path("/etc/slurm")
"""Steps look here for the configuration if their environment names none, as is the case with Snakemake's plugin."""
CONF_FILES = ("slurm.conf", "gres.conf", "cgroup.conf")
NULL_DEVICE = (1, 3)
"""Major and minor number of /dev/null. Each pretend GPU is a device file with these numbers."""

SLURM_CONF = """
ClusterName=pretend
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdParameters=config_overrides
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
StateSaveLocation={folder}/controller
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerParameters=sched_interval=2,bf_interval=2
MpiDefault=none
ReturnToService=2
SlurmctldTimeout=30
SlurmdTimeout=20
MessageTimeout=60
MinJobAge=3600
KillWait=2
Waittime=0
CompleteWait=0
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
GresTypes=gpu
{accounting}
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/completed.log
{nodes}
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=gpu Nodes=ALL Default=YES MaxTime=1440 DefMemPerCPU=100 OverSubscribe=NO State=UP
PartitionName=cpu Nodes=ALL MaxTime=1440 DefMemPerCPU=100 State=UP
PartitionName=urgent Nodes=ALL PriorityTier=10 PreemptMode=OFF State=UP
"""
NODE = (
    "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cores} Boards=1 SocketsPerBoard=1 "
    "CoresPerSocket={cores} ThreadsPerCore=1 RealMemory={memory_mb} Gres=gpu:fake:{gpus} Feature=fakegpu State=UNKNOWN"
)


def find_obstacle(accounting: bool = False) -> str:
    """Return why no cluster, or none with an accounting database, can be started here; empty if one can."""
    programs = PROGRAMS + (database.PROGRAMS if accounting else ())
    packages = "slurm-wlm munge" + (f" {database.PACKAGES}" if accounting else "")
    if missing := [program for program in programs if shutil.which(program) is None]:
        return f"{', '.join(missing)} not found: apt-get install --no-install-recommends {packages}"
    if os.getuid():
        return "starting a cluster needs root: pretend GPUs are character devices"
    if present := [
        name for name in CONF_FILES if (SYSTEM_CONF / name).exists() and not is_left_over(SYSTEM_CONF / name)
    ]:
        return f"{SYSTEM_CONF} has {', '.join(present)} already: the configuration of a real cluster is left alone"
    return ""


def is_left_over(conf: Path) -> bool:
    """Return whether `conf` is a link to the configuration of a test cluster whose process is gone."""
    owner = conf.resolve().with_name("owner")
    if not conf.is_symlink() or not owner.exists():
        return False
    pid, born = map(int, owner.read_text().split())
    if not is_alive(pid, born):
        return True
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    return True


def find_namespace(pid: int | str = "self") -> str:
    """Return the mount namespace of a process."""
    return str(Path(f"/proc/{pid}/ns/mnt").readlink())


def list_processes(node: str) -> list[psutil.Process]:
    """Return the processes of jobs on a node of this cluster, each after the slurmstepd that started it."""
    found = []
    for process in psutil.process_iter():
        # Nodes of clusters in other mount namespaces may have the same names.
        with suppress(psutil.Error, OSError):
            is_there = process.environ().get("SLURMD_NODENAME") == node
            if is_there and find_namespace(process.pid) == find_namespace():
                parent = process.parent()
                found += [parent] if parent and parent.name().startswith("slurmstepd") else []
                found.append(process)
    return found


class Cluster:
    """A cluster that a with statement starts and stops. It has an accounting database of its own on request."""

    def __init__(self, folder: Path, num_nodes: int = 3, accounting: bool = False, node: str = "node"):
        """node: name of each node, before its number."""
        self.folder, self.nodes = Path(folder), [f"{node}{i + 1}" for i in range(num_nodes)]
        self.accounting = accounting
        self._daemons: dict[str, subprocess.Popen] = {}

    def __enter__(self) -> "Cluster":
        try:
            self._configure()
            self._start("munged", ["munged", "--foreground", "--force", *self._munge_options()])
            wait_for((self.folder / "munge.sock").exists, "munged's socket", self.folder / "munged.out")
            if self.accounting:
                self._start_database()
            self._start("slurmctld", ["slurmctld", "-D"])
            for node in self.nodes:
                self.start_node(node)
            wait_for(lambda: self.count_idle() == len(self.nodes), "all nodes", self.folder / "slurmctld.log")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_) -> None:
        with suppress(subprocess.SubprocessError):
            self.run("scancel", "--user=root", "--full")
        for name in reversed(list(self._daemons)):
            self.stop_daemon(name)
        for name in CONF_FILES:
            if (SYSTEM_CONF / name).is_symlink():
                (SYSTEM_CONF / name).unlink()

    def run(self, *command: str, timeout_s: float = HANG_S) -> str:
        """Return the output of a SLURM command. It has a deadline, because clients wait for a lost controller."""
        return subprocess.run(
            command, env=self.environment(), check=True, capture_output=True, text=True, timeout=timeout_s
        ).stdout

    def environment(self) -> dict[str, str]:
        return os.environ | {"SLURM_CONF": str(self.folder / "slurm.conf"), **database.environment(self.folder)}

    def start_node(self, node: str) -> None:
        self._start(node, ["slurmd", "-D", "-N", node])

    def stop_daemon(self, name: str, signum: int = signal.SIGTERM) -> None:
        """Stop slurmctld, munged, or a node's slurmd by the node's name. SIGKILL simulates a lost node."""
        daemon = self._daemons.pop(name)
        daemon.send_signal(signum)
        try:
            daemon.wait(timeout=60)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()

    def lose_node(self, node: str) -> None:
        """Simulate a power failure of a node: kill its slurmd and everything that runs there at once."""
        self.stop_daemon(node, signal.SIGKILL)

        def has_ended():
            # A process may have started another one after the processes were listed.
            found = list_processes(node)
            for process in found:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            return not found

        wait_for(has_ended, f"the end of all processes of {node}", self.folder / f"{node}.log")

    def _start(self, name: str, command: list[str]) -> None:
        prepare = functools.partial(die_with_parent, parent=os.getpid())
        with open(self.folder / f"{name}.out", "ab") as output:
            self._daemons[name] = subprocess.Popen(
                command, env=self.environment(), stdout=output, stderr=output, preexec_fn=prepare
            )

    def _start_database(self) -> None:
        self._start("mariadbd", database.create(self.folder))
        wait_for(lambda: database.is_there(self.folder), "mariadbd", self.folder / "mariadbd.out")
        self._start("slurmdbd", ["slurmdbd", "-D"])
        wait_for(lambda: database.answers(self), "slurmdbd", self.folder / "slurmdbd.log")
        database.add_user(self)

    def _munge_options(self) -> list[str]:
        files = {"key-file": "munge.key", "socket": "munge.sock", "pid-file": "munged.pid", "log-file": "munged.log"}
        files["seed-file"] = "munge.seed"
        return [f"--{option}={self.folder / name}" for option, name in files.items()]

    def _configure(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)
        (self.folder / "owner").write_text(f"{os.getpid()} {read_start_ticks(os.getpid())}")
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        for name in ("controller", *self.nodes):
            (self.folder / name).mkdir(exist_ok=True)
        for i in range(GPUS_PER_NODE):
            os.mknod(self.folder / f"gpu{i}", stat.S_IFCHR | 0o666, os.makedev(*NULL_DEVICE))
        controller_port, database_port, *ports = (reserve_port() for _ in range(2 + len(self.nodes)))
        accounting = database.configure(self.folder, database_port) if self.accounting else database.NONE
        host = socket.gethostname().split(".")[0]
        sizes = {"host": host, "cores": CORES_PER_NODE, "memory_mb": MEMORY_PER_NODE_MB, "gpus": GPUS_PER_NODE}
        nodes = [NODE.format(name=name, port=port, **sizes) for name, port in zip(self.nodes, ports, strict=True)]
        parts = {"controller_port": controller_port, "accounting": accounting, "nodes": "\n".join(nodes)}
        conf = SLURM_CONF.format(host=host, folder=self.folder, **parts)
        (self.folder / "slurm.conf").write_text(conf)
        gpus = f"Name=gpu Type=fake File={self.folder}/gpu[0-{GPUS_PER_NODE - 1}]"
        (self.folder / "gres.conf").write_text("".join(f"NodeName={name} {gpus}\n" for name in self.nodes))
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        SYSTEM_CONF.mkdir(exist_ok=True)
        for name in CONF_FILES:
            # A cluster that was killed has left its link.
            (SYSTEM_CONF / name).unlink(missing_ok=True)
            (SYSTEM_CONF / name).symlink_to(self.folder / name)

    def count_idle(self) -> int:
        with suppress(subprocess.SubprocessError):
            states = self.run("sinfo", "--noheader", "--partition=gpu", "--Node", "--format=%T", timeout_s=60.0)
            return states.split().count("idle")
        return 0


def wait_for(condition, what: str, log: Path, timeout_s: float = HANG_S, poll_s: float = 0.1) -> None:
    """Poll until the condition holds. Raises TimeoutError with the end of a log."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            words = log.read_text()[-2000:] if log.exists() else "no log"
            raise TimeoutError(f"{what} not there after {timeout_s:.0f} s:\n{words}")
        time.sleep(poll_s)
