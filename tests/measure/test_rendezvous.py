"""Processes of a run find each other, and report which of them are missing."""

import multiprocessing
import os
import subprocess
import sys

import pytest

from hanging import HANG_S
from howmanygpus.measure.host.placement import Placement
from howmanygpus.measure.launch import rendezvous
from howmanygpus.measure.launch.rendezvous import (
    PORTS,
    RendezvousError,
    announce,
    is_free,
    read_all,
    reserve_port,
    resolve_address,
    wait_for_all,
)
from project import ROOT


def take_port(connection):
    # The first port to try depends on the process id. Here all processes try the same port first.
    rendezvous.os.getpid = lambda: 0
    connection.send(reserve_port())
    connection.recv()


def test_processes_on_one_host_get_different_ports_until_they_end():
    context = multiprocessing.get_context("spawn")
    pairs = [context.Pipe() for _ in range(4)]
    processes = [context.Process(target=take_port, args=(end,)) for _, end in pairs]
    for process in processes:
        process.start()
    ports = [here.recv() for here, _ in pairs]
    for here, _ in pairs:
        here.send(None)
    for process in processes:
        process.join()
    assert len(set(ports)) == len(ports) and all(is_free(port) for port in ports)


BECOME_A_FRAMEWORK = """
import os
from howmanygpus.measure.launch.rendezvous import reserve_port

print(reserve_port(), flush=True)
os.execvp("cat", ["cat"])
"""


def test_a_port_stays_reserved_for_the_program_that_its_process_becomes(tmp_path, monkeypatch):
    """The reservation does not depend on the folder for temporary files."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "lib"), "TMPDIR": str(tmp_path)}
    command, pipe = [sys.executable, "-c", BECOME_A_FRAMEWORK], subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True) as process:
        reserved = int(process.stdout.readline())
        print("answered by cat alone", file=process.stdin, flush=True)
        assert process.stdout.readline()
        monkeypatch.setattr("howmanygpus.measure.launch.rendezvous.os.getpid", lambda: reserved - PORTS.start)
        assert reserve_port() != reserved and not list(tmp_path.iterdir())
        process.stdin.close()
        process.wait()
    assert reserve_port() == reserved


def test_a_port_that_another_program_listens_on_is_skipped(monkeypatch):
    first = reserve_port()
    monkeypatch.setattr("howmanygpus.measure.launch.rendezvous.is_free", lambda port: port % 2 == 0)
    assert reserve_port() % 2 == 0 and first


def test_each_process_gets_all_addresses_in_the_order_of_ranks(tmp_path):
    for rank in (2, 0, 1):
        announce(tmp_path, rank, {"address": f"host:{rank}"})
    assert [other["address"] for other in wait_for_all(tmp_path, 3, timeout_s=HANG_S)] == ["host:0", "host:1", "host:2"]


def test_a_rank_that_is_announced_twice_is_refused(tmp_path):
    announce(tmp_path, 1, {})
    with pytest.raises(RendezvousError, match="process 1 of this run was started twice"):
        announce(tmp_path, 1, {})
    assert len(read_all(tmp_path)) == 1


def test_missing_processes_are_named(tmp_path):
    announce(tmp_path, 0, {})
    with pytest.raises(RendezvousError, match=r"2 of 3 processes were not there after 0 s \(rank 1, 2\)"):
        wait_for_all(tmp_path, 3, timeout_s=0.3)


def test_an_unknown_interface_is_refused_with_a_list_of_the_known_ones(monkeypatch):
    with pytest.raises(RendezvousError, match=r"network_interface ib7 is not among those of .*: .*lo"):
        resolve_address(Placement("slurm", network_interface="ib7"))
    assert resolve_address(Placement("slurm", network_interface="lo")) == "127.0.0.1"
    for name, expected in (("n01", "n01-ib"), ("n01.cluster.org", "n01-ib.cluster.org")):
        monkeypatch.setattr("socket.gethostname", lambda name=name: name)
        assert resolve_address(Placement("slurm", rendezvous_suffix="-ib")) == expected


def test_processes_of_one_machine_need_no_address_of_its_name(monkeypatch):
    """As on a laptop whose name no service knows."""
    monkeypatch.setattr(rendezvous.socket, "gethostname", lambda: "nameless.invalid")
    assert resolve_address(Placement()) == "127.0.0.1"
