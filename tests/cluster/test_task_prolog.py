"""What users and sites prefer reaches neither the answers of SLURM nor what is measured."""

import json

import pytest

from hanging import HANG_S
from howmanygpus.site import slurm
from project import ROWS, study

PROLOG = """#!/bin/sh
echo export PYTHONPATH=/nowhere
echo export LD_LIBRARY_PATH=/nowhere
echo export OMP_NUM_THREADS=77
echo export KMP_BLOCKTIME=7
"""
PREFERENCES = {
    **dict.fromkeys(("SQUEUE_PARTITION", "SQUEUE_QOS", "SQUEUE_ACCOUNT", "SQUEUE_NAMES", "SQUEUE_USERS"), "nowhere"),
    **{"SQUEUE_STATES": "COMPLETED", "SQUEUE_FORMAT": "%i", "SINFO_PARTITION": "nowhere", "SCANCEL_STATE": "RUNNING"},
    **{"SCANCEL_PARTITION": "cpu", "SCANCEL_INTERACTIVE": "1", "SLURM_TIME_FORMAT": "relative"},
}


@pytest.fixture
def prolog(cluster):
    """Let each task of the cluster get variables of the site."""
    script, conf = cluster.folder / "prolog.sh", cluster.folder / "slurm.conf"
    script.write_text(PROLOG)
    script.chmod(0o755)
    text = conf.read_text()
    conf.write_text(f"{text}TaskProlog={script}\n")
    cluster.run("scontrol", "reconfigure")
    yield
    conf.write_text(text)
    cluster.run("scontrol", "reconfigure")


def wait_for_prolog(project, cluster) -> None:
    project.wait_until(lambda: cluster.run("srun", "printenv", "KMP_BLOCKTIME").strip() == "7", "the prolog")


@pytest.mark.usefixtures("prolog")
def test_variables_of_a_task_prolog_replace_none_that_a_run_is_given(project, cluster):
    wait_for_prolog(project, cluster)
    options = {"num_gpus": [2], "per_device_batch_size": [8]}
    project.write_config(grid=study(frameworks=["sleeping", "pacing"], devices=["fake"], **options))
    project.write_machine(reference_kernel=True)
    project.snakemake(*ROWS)
    assert json.loads(project.read("results/probe/fake.json"))["found"]["step"]["added"] == ["KMP_BLOCKTIME"]
    for path, record in project.read_records().items():
        assert record["status"] == "completed", path
        settings = record["settings"]
        assert (settings["OMP_NUM_THREADS"], settings["KMP_BLOCKTIME"]) == ("2", "7"), path
        assert "problem" not in record["reference_kernel"], path


def test_no_preference_hides_a_job_or_keeps_it_from_being_cancelled(project, cluster, monkeypatch):
    for name, value in cluster.environment().items() | PREFERENCES.items():
        monkeypatch.setenv(name, value)
    job = slurm.submit(["--parsable", "--hold", "--partition=gpu"], "#!/bin/sh\ntrue\n").strip()
    assert [each.id for each in slurm.list_queue()] == [job]
    assert slurm.find_job(job).is_alive and slurm.list_partitions()
    slurm.cancel([job], only_waiting=True)
    project.wait_until(lambda: not slurm.list_queue(), "the end of the job", HANG_S)


REQUESTS = {
    **{"SBATCH_ARRAY_INX": "1-2", "SBATCH_CONSTRAINT": "nowhere", "SBATCH_ERROR": "error.txt"},
    **{"SBATCH_EXCLUSIVE": "exclusive", "SBATCH_GPUS_PER_NODE": "4", "SBATCH_PARTITION": "nowhere"},
    **{"SBATCH_TIMELIMIT": "1", "SBATCH_WAIT": "1", "SINFO_PARTITION": "cpu", "SLURM_HINT": "nomultithread"},
}


def test_variables_of_the_shell_change_no_request(project, cluster, monkeypatch):
    """The machine file names no constraint, and does not ask for a node without other jobs."""
    options = {"num_gpus": [1], "per_device_batch_size": [8]}
    project.write_config(grid=study(frameworks=["sleeping"], devices=["fake"], **options))
    known = set(cluster.run("squeue", "--noheader", "--states=all", "--format=%i").split())
    for name, value in REQUESTS.items():
        monkeypatch.setenv(name, value)
    assert "SBATCH_ARRAY_INX, SBATCH_CONSTRAINT" in project.snakemake(*ROWS)
    (record,) = project.read_records().values()
    assert (record["status"], record["job"]["exclusive"]) == ("completed", False)
    monkeypatch.undo()
    printed = cluster.run("squeue", "--noheader", "--states=all", "--format=%i %P %b %l %h")
    own = {line for line in printed.splitlines() if line.split()[0] not in known}
    (run,) = [line for line in own if line.split()[0] == record["job"]["id"]]
    assert run.split()[1:3] == ["gpu", "gres:gpu:fake:1"] and "_" not in "".join(line.split()[0] for line in own)
    assert not (project.folder / "error.txt").exists()
