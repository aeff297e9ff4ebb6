"""Test what jobs request from SLURM, how its answers are read, and which processes a run starts in a job."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from snakemake_executor_plugin_slurm.utils import set_gres_string
from snakemake_interface_common.exceptions import WorkflowError

from helpers.call_folders import work_without_calls
from helpers.messages import says
from helpers.specs import make_spec
from howmanygpus.config.errors import ConfigError
from howmanygpus.config.files import read_yaml
from howmanygpus.measure.host.placement import Placement
from howmanygpus.measure.launch.launchers import build_command
from howmanygpus.paths import JOB_LOGS
from howmanygpus.site.jobs.completing import complete_attempts
from howmanygpus.site.jobs.endings import explain_job
from howmanygpus.site.jobs.invocations import announce
from howmanygpus.site.machine import GRES, read_machine
from howmanygpus.site.offer import Node, Offer
from howmanygpus.site.requests import JobSize, job_resources, list_resources, placement
from howmanygpus.site.retrying import Growth
from howmanygpus.site.slurm import Job
from howmanygpus.study.plan import Plan
from project import ROOT, study

A100 = {
    **{"devices_per_node": 4, "max_nodes": 4, "cores_per_device": 8, "memory_per_device_mb": 1000},
    **{"partition": "gpu", "request": "gpu:a100:{n}", "compute_capability": "8.0"},
}


@pytest.fixture
def write_machine(tmp_path):
    """Return a function that writes and reads a machine file with changes of its device and its `slurm` section."""

    def write(slurm=None, packed=False, **device):
        values = {"scheduler": "slurm", "devices": {"a100": A100 | device}, "slurm": slurm or {}}
        (tmp_path / "machine.yaml").write_text(yaml.safe_dump(values))
        return read_machine(tmp_path / "machine.yaml", packed)

    return write


def ask(machine, launcher, num_gpus, num_nodes=1, growth=Growth(), offer=None):  # noqa: B008
    size = JobSize(machine.device("a100"), launcher, num_gpus, num_nodes, 60)
    found = job_resources(machine, size, growth, offer)
    assert set(found) == set(list_resources(machine))
    return found


def test_a_run_over_two_nodes_asks_for_its_devices_node_by_node(write_machine):
    found = ask(write_machine(), "per_device", num_gpus=8, num_nodes=2)
    assert (found["nodes"], found["gres"], found["cpus_per_task"], found["mem_mb"]) == (2, "gpu:a100:4", 8, 4000)
    assert found["slurm_extra"] == "--exclusive --ntasks-per-node=4"
    assert found["tasks"] is None, "the plugin would make it tasks per GPU"


def test_one_process_for_all_devices_has_all_their_cores(write_machine):
    found = ask(write_machine(nodes="shared"), "plain", num_gpus=3)
    assert (found["cpus_per_task"], found["slurm_extra"]) == (24, "--ntasks-per-node=1")


def test_a_request_that_is_an_option_of_sbatch(write_machine):
    machine = write_machine(request="--gpus-per-node=a100-40:{n}", nodes="shared", sbatch_options="--nice=9", qos="x")
    found = ask(machine, "per_device", num_gpus=2)
    assert (found["gres"], found["tasks"], found["slurm_extra"]) == (None, 2, "--nice=9 --gpus-per-node=a100-40:2")
    assert found["qos"] == "x"
    step = Placement(**json.loads(placement(machine, machine.device("a100")))).describe_step(2)
    assert step == ["--gpus-per-node=a100-40:2"]


LARGE = Offer("gpu", float("inf"), (Node(64, 256000, 4), Node(64, 256000, 4)))
WHOLE = Offer("gpu", 90.0, (Node(32, 4000, 4), Node(32, 4000, 4)))
"""What a partition offers in which a run on a whole node has all of the node's memory."""


@pytest.mark.parametrize(
    ("growth", "offer", "requested"),
    [
        (Growth(), LARGE, (65, 60, 4000)),
        (Growth(time=2), LARGE, (125, 120, 4000)),
        (Growth(memory=2), LARGE, (65, 60, 8000)),
        (Growth(2, 2), WHOLE, (90, 85, 4000)),
        (Growth(2, 2), Offer("gpu", 30.0, (Node(32, 2000, 4),)), (65, 60, 4000)),
        (Growth(2, 2), None, (65, 60, 4000)),
    ],
    ids=["first", "time", "memory", "whole node", "already too large", "no answer"],
)
def test_a_retry_requests_at_most_the_offer_of_the_partition(write_machine, growth, offer, requested):
    found = ask(write_machine(), "plain", 4, growth=growth, offer=offer)
    assert (found["runtime"], found["limit_min"], found["mem_mb"]) == requested


def test_inside_an_allocation_nothing_is_asked_for(write_machine):
    machine = write_machine(packed=True)
    assert set(ask(machine, "plain", 1)) == {"limit_min"}
    assert placement(machine, machine.device("a100")) == "{}"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"request": None}, "devices.a100.request is missing: no job would be given a GPU"),
        (
            {"request": "gpu:a100"},
            'devices.a100.request: "gpu:a100" does not match ^([^{}]*[{]n[}])+[^{}]*$; How a job requests',
        ),
        (
            {"cores_per_device": None},
            "devices.a100.cores_per_device is missing: with a scheduler, devices are on other",
        ),
        ({"nodes": "packed"}, 'devices.a100.nodes: "packed" is not known here; choose from exclusive, shared'),
    ],
)
def test_an_impossible_machine_file_is_refused(write_machine, changes, words):
    with pytest.raises(ConfigError) as error:
        write_machine(**changes)
    assert words in str(error.value)


def plan_of(machine, **changes):
    values = {"frameworks": ["pytorch_ddp", "keras_mirrored"], "devices": ["a100"], "num_gpus": [1, 8], **changes}
    return Plan({"studies": {"s": study(**values)}}, machine)


def test_one_process_is_unsupported_beyond_a_node(write_machine):
    plan = plan_of(write_machine())
    reasons = {(run.framework, run.num_gpus): run.unsupported for run in plan.runs.values()}
    assert reasons["keras_mirrored", 8] == "keras_mirrored is one process: it uses the 4 devices of one node at most"
    assert not any(reason for key, reason in reasons.items() if key != ("keras_mirrored", 8))
    nodes = {run.num_gpus: plan.studies["s"].spec(run)["num_nodes"] for run in plan.runs.values()}
    assert nodes == {1: 1, 8: 2}


def test_a_batchnorm_that_synchronizes_within_one_process_is_unsupported_beyond_a_node(write_machine):
    machine = write_machine(compute_capability="8.0")
    plan = plan_of(machine, frameworks=["mxnet_gluon"], num_gpus=[4, 8], batchnorm="synchronized")
    reasons = {run.num_gpus: run.unsupported for run in plan.runs.values()}
    assert reasons[4] == "" and "synchronizes BatchNorm within a process" in reasons[8]
    local = plan_of(machine, frameworks=["mxnet_gluon"], num_gpus=[8])
    assert not any(run.unsupported for run in local.runs.values())


def test_devices_spread_evenly_or_are_refused(write_machine):
    with pytest.raises(ConfigError, match="num_gpus: 5 does not spread evenly over 2 nodes of a100 devices"):
        plan_of(write_machine(), num_gpus=[5])


def test_auto_is_refused_where_runs_are_jobs(write_machine):
    with pytest.raises(ConfigError, match=r"name a device of .*machine.yaml .a100."):
        plan_of(write_machine(), devices=["auto"])


def test_the_first_command_with_the_profile_of_a_cluster_says_which_devices_there_are():
    """Without a config of the user, Snakemake reads config/config.yaml."""
    profile = ROOT / "profiles" / "slurm" / "machine.yaml"
    devices = yaml.safe_load(profile.read_text())["devices"]
    with pytest.raises(ConfigError) as raised:
        Plan(read_yaml(ROOT / "config" / "config.yaml"), read_machine(profile))
    assert says(str(raised.value), "studies.digits.devices[0]", "auto", str(profile), *devices)
    assert f"`devices: [{next(iter(devices))}]`" in str(raised.value)


def test_a_packed_call_leaves_runs_of_several_nodes_out(write_machine):
    plan = plan_of(write_machine(packed=True))
    left_out = {run.num_gpus for run in plan.runs.values() if plan.is_left_out(run)}
    assert (left_out, plan.find_shortages()) == ({8}, [])


@pytest.mark.parametrize(
    ("launcher", "tasks", "per_node", "cores"),
    [("plain", 2, 1, 8), ("per_node", 2, 1, 8), ("per_device", 8, 4, 2)],
)
def test_srun_starts_each_process_once(tmp_path, launcher, tasks, per_node, cores):
    spec = make_spec(launcher=launcher, num_gpus=8, num_nodes=2, cores_per_device=2, global_batch_size=8)
    where = Placement(scheduler="slurm", step_options=["--gres=gpu:a100:{n}"])
    command = build_command(spec, where, tmp_path, "howmanygpus.measure.loop.train", ["--option"])
    assert command[0] == "srun" and {"--nodes=2", f"--ntasks={tasks}", f"--ntasks-per-node={per_node}"} <= set(command)
    assert {f"--cpus-per-task={cores}", "--gres=gpu:a100:4", "--kill-on-bad-exit=1"} <= set(command)
    assert "OMP_NUM_THREADS=2" in command[command.index("env") :], "a TaskProlog may have set another number"
    assert command[-6:] == [
        "-m",
        "howmanygpus.measure.launch.rank_process",
        "--folder",
        str(tmp_path),
        "howmanygpus.measure.loop.train",
        "--option",
    ]


@pytest.mark.parametrize("scheduler", ["none", "slurm"])
def test_horovod_by_mpi_is_started_by_mpirun(tmp_path, scheduler):
    spec = make_spec(launcher="horovodrun", horovod_controller="mpi", num_gpus=2)
    command = build_command(spec, Placement(scheduler=scheduler), tmp_path, "howmanygpus.measure.loop.train", [])
    assert Path(command[0]).name == "mpirun" and command[1:3] == ["-np", "2"]
    assert ("howmanygpus.measure.launch.rank_process" in command) == (scheduler == "slurm")


def test_one_machine_needs_no_srun(tmp_path):
    command = build_command(make_spec(launcher="plain"), Placement(), tmp_path, "howmanygpus.measure.loop.train", [])
    assert command == [sys.executable, "-m", "howmanygpus.measure.loop.train"]


@pytest.mark.parametrize(
    ("state", "status", "words"),
    [
        ("TIMEOUT", "time_limit", "at its time limit of 01:00:00 (job 7)"),
        ("CANCELLED", "cancelled", "the job was cancelled"),
        ("NODE_FAIL", "node_failed", "lost a node of the job (n[1-2])"),
        ("BOOT_FAIL", "node_failed", "could not start a node of the job (n[1-2])"),
        ("PREEMPTED", "preempted", "gave the job's nodes to another"),
        ("OUT_OF_MEMORY", "host_out_of_memory", "than the 4G it asked for"),
    ],
)
def test_the_state_of_a_job_in_slurm_becomes_a_status(state, status, words):
    found = explain_job(Job("7", state, nodes="n[1-2]", time_limit="01:00:00", memory="4G"))
    assert found["status"] == status and words in found["reason"]


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("slurmstepd: error: StepId=7.batch exceeded memory limit (432 > 209), being killed", "host_out_of_memory"),
        ("slurmstepd-n1: error: Job 7 exceeded virtual memory limit (432 > 209), being killed", "host_out_of_memory"),
        ("ValueError: it says that slurmstepd exceeded memory limit", None),
    ],
)
@pytest.mark.parametrize("folder", [str(JOB_LOGS), "logs of jobs"])
def test_a_job_that_failed_by_the_limit_of_its_memory_says_so_in_its_log(tmp_path, monkeypatch, folder, line, status):
    """The profile may name another folder, and the call whose jobs have their logs there may have been killed."""
    work_without_calls(tmp_path, monkeypatch)
    announce("killed", logs=tmp_path / folder)
    announce("own")
    log = tmp_path / folder / "rule_train" / "run" / "7.log"
    log.parent.mkdir(parents=True)
    log.write_text(f"a banner\n{line}\n*** JOB 7 CANCELLED\n")
    assert explain_job(Job("7", "FAILED")).get("status") == status
    assert explain_job(Job("8", "FAILED")) == {} == explain_job(Job("7", "COMPLETED"))


def test_a_running_job_explains_nothing():
    assert explain_job(Job("7", "RUNNING")) == explain_job(None) == {}


def test_an_attempt_whose_job_is_gone_is_settled(tmp_path):
    record = {"status": "running", "reason": "", "job": {"id": "7", "restarts": 0}}
    statuses = {"done": "completed", "ended": "interrupted", "terminated": "crashed", "crashed": "crashed"}
    reasons = {"terminated": "exit status 143", "crashed": "ValueError: no such layer"}
    for name in ("lost", "alive", "forgotten", *statuses):
        (tmp_path / name).mkdir()
        found = {"status": statuses.get(name, "running"), "reason": reasons.get(name, "")}
        job = record["job"] | {"id": name}
        (tmp_path / name / "attempt.json").write_text(json.dumps(record | found | {"job": job}))
    answers = {name: Job(name, "TIMEOUT", time_limit="01:00:00") for name in ("ended", "terminated", "crashed")}
    answers |= {"lost": Job("lost", "NODE_FAIL", nodes="n1"), "alive": Job("alive", "RUNNING")}
    client = SimpleNamespace(look_up=answers.get, find_job=answers.get)
    assert {path.parent.name for path in complete_attempts(tmp_path, client)} == {"lost", "forgotten"}
    found = {path.parent.name: json.loads(path.read_text())["status"] for path in tmp_path.glob("*/attempt.json")}
    assert found == {
        **{"lost": "node_failed", "alive": "running", "forgotten": "killed"},
        **{"ended": "time_limit", "done": "completed", "terminated": "time_limit", "crashed": "crashed"},
    }


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"sbatch_options": "--nice=9 --qos=x"}, 'sbatch_options: "--nice=9 --qos=x" has --qos, which .*; use `qos`'),
        ({"sbatch_options": "-p gpu"}, "has -p, which Snakemake's SLURM plugin sets itself; use `partition`"),
        ({"sbatch_options": "--time=10"}, "has --time, .*; use `time_limit_min` of the study"),
        ({"sbatch_options": "--output=x"}, "has --output, .*; leave it out"),
        (
            {"request": "gpu:nvidia_a100-sxm4-80gb:{n}"},
            "a100.request: .* is no gres .*; write .*--gpus-per-node=nvidia_a100-sxm4-80gb:{n}",
        ),
        ({"request": "gpu:a100:{n},tmp:9"}, "is no gres .*; write .*--gpus-per-node=a100:{n}"),
        ({"request": "--gpus={n}"}, "a100.request: .* has --gpus, .*; use `request`, such as --gpus-per-node={n}"),
    ],
)
def test_an_option_that_the_plugin_sets_itself_or_refuses_is_refused(write_machine, given, words):
    with pytest.raises(ConfigError, match=words):
        write_machine(**given)


@pytest.mark.parametrize("given", ["gpu:{n}", "gpu:a100_1g.10gb:{n}", "gpu:V100-SXM2:{n}", "gpu:a100:{n},tmp:9"])
def test_a_machine_file_may_have_just_the_gres_that_the_plugin_takes(given):
    gres = given.format(n=1)
    try:
        set_gres_string(SimpleNamespace(resources=SimpleNamespace(gres=gres, get={"gres": gres}.get)))
        is_taken = True
    except WorkflowError:
        is_taken = False
    assert is_taken == bool(GRES.fullmatch(given))
