"""Processes of a Horovod run that reach the rendezvous early are found there by the others."""

import os
import subprocess

from project import ROOT

SCRIPT = """
import http.client, os, threading

from howmanygpus.measure.frameworks import horovod
from howmanygpus.measure.launch.rendezvous import reserve_port
from helpers.specs import make_spec

port = reserve_port()
variables = {"RANK": 0, "LOCAL_RANK": 0, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
os.environ |= {name: str(value) for name, value in variables.items()}
announced, assign = threading.Event(), horovod.get_host_assignments

def request(method, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, "/global/1", body)
    return connection.getresponse().read()

def announce():
    horovod.wait_for_server("127.0.0.1", port)
    request("PUT", "an address")
    announced.set()

def assign_late(*hosts):
    announced.wait(2)
    return assign(*hosts)

horovod.get_host_assignments = assign_late
early = threading.Thread(target=announce)
early.start()
horovod.join(make_spec(num_nodes=2))
early.join()
print(request("GET").decode())
"""


def test_a_process_that_waits_already_is_found(environment_python):
    """The second process announces itself as soon as the first one listens, which is slow to assign the hosts."""
    folders = os.pathsep.join([str(ROOT / "workflow" / "lib"), str(ROOT / "tests")])
    command = [environment_python("horovod-pytorch-cpu"), "-c", SCRIPT]
    result = subprocess.run(command, env=os.environ | {"PYTHONPATH": folders}, capture_output=True, text=True)
    assert result.stdout == "an address\n", result.stderr[-3000:]
