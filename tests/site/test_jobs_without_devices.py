"""Jobs without a device are compared with the nodes and the time limit of their partition before any is submitted."""

from types import SimpleNamespace

import pytest

from helpers.fake_slurm import pretend
from helpers.messages import list_texts
from howmanygpus.invocation.cluster import find_misfits_without_devices

SHOWN = {
    "partition": (
        "PartitionName=small Default=YES MaxTime=00:30:00 MaxMemPerNode=UNLIMITED Nodes=c1\n"
        "PartitionName=long Default=NO MaxTime=UNLIMITED MaxMemPerNode=UNLIMITED Nodes=c2\n"
    ),
    "node": (
        "NodeName=c1 CPUTot=2 RealMemory=6000 Gres=(null) AvailableFeatures=(null) Partitions=small\n"
        "NodeName=c2 CPUTot=8 RealMemory=60000 Gres=(null) AvailableFeatures=(null) Partitions=long\n"
    ),
}


@pytest.fixture(autouse=True)
def scontrol(monkeypatch, tmp_path):
    for what, text in SHOWN.items():
        (tmp_path / what).write_text(text)
    pretend(monkeypatch, tmp_path, "scontrol", f'for last; do :; done; exec cat "{tmp_path}/$last"')


def make_job(rule="compute_reference", threads=1, is_local=False, of_rule=(), **resources):
    return SimpleNamespace(
        rule=SimpleNamespace(name=rule, resources=of_rule),
        threads=threads,
        is_local=is_local,
        resources={"runtime": 20, "mem_mb": 4000} | resources,
        is_group=lambda: False,
    )


@pytest.mark.parametrize(
    ("job", "words"),
    [
        ({"runtime": 60}, "runtime: 60 minutes of jobs without a device exceed the 30 that partition small allows"),
        ({"threads": 4}, "compute_reference asks for 4 cores, and a node of partition small has 2; add "),
        ({"threads": 4}, "`compute_reference=2` to `set-threads`"),
        ({"mem_mb": 8000}, "asks for 8000 MB, and a node of partition small gives 6000; lower mem_mb"),
        (
            {"slurm_partition": "lung"},
            "slurm_partition: 'lung' is no partition of this cluster; choose from small, long",
        ),
    ],
)
def test_a_job_that_could_never_start_is_named_with_the_remedy(job, words):
    (message,) = list_texts(find_misfits_without_devices([make_job(**job), make_job(**job)]))
    assert message.startswith("config.yaml of the profile: ") and words in message


def test_jobs_that_fit_run_here_or_have_devices_are_not_mentioned():
    large = {"threads": 4, "runtime": 60}
    jobs = [make_job(), make_job(**large, slurm_partition="long"), make_job(**large, is_local=True)]
    assert find_misfits_without_devices([*jobs, make_job(**large, of_rule=["limit_min"])]) == []
