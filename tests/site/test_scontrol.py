"""The nodes and partitions of a cluster are read from the lines that scontrol of SLURM 17.02 to 25.05 prints."""

import pytest

from helpers.fake_slurm import pretend
from helpers.slurm_lines import NODES, PARTITION
from howmanygpus.site.offer import ask_for_offer


@pytest.fixture
def scontrol(monkeypatch, tmp_path):
    """Return a function that lets scontrol show a node, and the partition `gpu`."""

    def show(node: str, hidden: str = "NO") -> None:
        shown = {"node": node, "partition": PARTITION.format(name="gpu", default="NO", hidden=hidden)}
        for what, text in shown.items():
            (tmp_path / what).write_text(f"{text}\n")
        hide = 'case "$*" in *--all*) ;; *) exit 1;; esac;' if hidden == "YES" else ""
        pretend(monkeypatch, tmp_path, "scontrol", f'{hide} echo note; for last; do :; done; cat "{tmp_path}/$last"')

    return show


def ask(request_: str):
    return ask_for_offer({"partition": "gpu", "request": request_, "constraint": None})


@pytest.mark.parametrize("version", NODES)
def test_a_node_offers_its_devices_in_its_last_or_only_partition(scontrol, version):
    line, (cores, memory_mb, devices) = NODES[version]
    scontrol(line)
    (node,) = ask("gpu:{n}").nodes
    assert (node.cores, node.memory_mb, node.devices) == (cores, memory_mb, devices)


def test_a_hidden_partition_can_be_used(scontrol):
    scontrol(NODES["22.05"][0], hidden="YES")
    assert len(ask("gpu:ampere:{n}").nodes) == 1
