"""How long the processes of a Horovod run wait for each other."""

import importlib
import os
import sys
from types import ModuleType

import pytest

from helpers.specs import make_spec

TIMEOUT = "HOROVOD_GLOO_TIMEOUT_SECONDS"
SERVERS = {
    "horovod.runner.common.util.hosts": ("get_host_assignments", "parse_hosts"),
    "horovod.runner.http.http_server": ("RendezvousHandler", "RendezvousHTTPServer"),
}


@pytest.fixture
def joining(monkeypatch):
    """Return our module, without Horovod, which this environment lacks. What it sets is undone."""
    for name, members in SERVERS.items():
        module = ModuleType(name)
        vars(module).update(dict.fromkeys(members))
        monkeypatch.setitem(sys.modules, name, module)
    for name in ("HOROVOD_CONTROLLER", "HOROVOD_CPU_OPERATIONS", TIMEOUT):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOROVOD_RANK", "0")
    ours = "howmanygpus.measure.frameworks.horovod"
    yield importlib.import_module(ours)
    sys.modules.pop(ours)


def test_processes_wait_for_each_other_longer_than_imports_take(joining):
    joining.join(make_spec())
    assert os.environ["HOROVOD_CONTROLLER"] == "gloo" and int(os.environ[TIMEOUT]) == joining.PATIENCE_S >= 300


def test_the_users_own_timeout_stays(joining, monkeypatch):
    monkeypatch.setenv(TIMEOUT, "7")
    joining.join(make_spec())
    assert os.environ[TIMEOUT] == "7"
