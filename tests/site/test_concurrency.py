"""Test how many runs go at a time on a cluster, and what the report says of it."""

import pytest
import yaml

from howmanygpus.site.concurrency import describe_concurrency, limit_measurements
from howmanygpus.site.machine import read_machine
from project import ROOT

A100 = {"devices_per_node": 4, "cores_per_device": 8, "request": "gpu:a100:{n}"}
ALONE = "Runs are measured repeat by repeat, each in random order, one at a time."
SHARED = "Runs at the same time share the file system and the network between nodes."


def read(path, concurrent_runs=None, packed=False, **device):
    values = {"devices": {"a100": A100 | device}, "slurm": {"concurrent_runs": concurrent_runs}}
    path.write_text(yaml.safe_dump(values | {"scheduler": "slurm"}))
    return read_machine(path, packed)


@pytest.mark.parametrize(
    ("given", "limit", "sentences"),
    [
        (
            {"concurrent_runs": 1},
            100,
            "Runs are jobs, submitted repeat by repeat, each in random order, one at a time.",
        ),
        (
            {"concurrent_runs": 3},
            300,
            f"submitted repeat by repeat, each in random order, at most 3 at a time, on nodes of their own. {SHARED}",
        ),
        (
            {},
            None,
            "submitted repeat by repeat, each in random order, as many at a time as SLURM starts, on nodes of their "
            f"own. {SHARED}",
        ),
        ({"nodes": "shared"}, None, f"on nodes that they may share with other jobs. {SHARED}"),
        ({"concurrent_runs": 3, "packed": True}, 100, ALONE),
    ],
)
def test_the_report_says_how_many_runs_go_at_a_time(tmp_path, given, limit, sentences):
    machine = read(tmp_path / "machine.yaml", **given)
    assert limit_measurements(machine, machine.submits) == limit
    assert describe_concurrency(machine).endswith(sentences)


def test_runs_on_one_machine_go_one_at_a_time():
    machine = read_machine(ROOT / "profiles" / "local" / "machine.yaml")
    assert (limit_measurements(machine, machine.submits), describe_concurrency(machine)) == (100, ALONE)


def test_readme_and_report_do_not_say_more():
    """The sentence of the report is that of the machine, and no other document has one of its own for all machines."""
    page = (ROOT / "workflow" / "report" / "workflow.rst").read_text()
    assert '{{ snakemake.config["concurrency"] }}' in page and "at a time" not in page
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert "On one machine, runs are done one at a time, repeat by repeat, each in random order, " in readme
    assert "On a cluster, several runs are done at the same time" in readme
    assert readme.count("one at a time") == 2 and "`concurrent_runs: 1` in the machine file lets them run one" in readme
