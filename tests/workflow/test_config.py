"""The config works as Snakemake users expect: default file, several files, command line, and refused values."""

import re
import subprocess
import sys

import pytest
import yaml

from forking import STARTED_BY_USERS
from hanging import HANG_S
from project import LISTED, RUNS, study

HAS_LIMIT = re.compile(r"Provided resources: .*\bmeasurement\b.*\b100\b")
"""What Snakemake's log says if a measured run takes the whole machine."""


def planned_studies(project, *arguments):
    return {job.split("/")[0] for job in project.planned_runs(*arguments)}


def test_without_a_configfile_the_default_is_loaded(project):
    project.write_config(first=study())
    assert planned_studies(project) == {"first"}


def test_a_given_configfile_replaces_the_default(project):
    project.write_config(first=study())
    project.write_config("mine.yaml", second=study())
    assert planned_studies(project, "--configfile", "mine.yaml") == {"second"}


def test_several_configfiles_are_merged(project):
    project.write_config("mine.yaml", second=study())
    project.write_config("more.yaml", third=study(), second={"num_gpus": [1]})
    runs = project.planned_runs("--configfile", "mine.yaml", "more.yaml")
    assert {run.split("/")[0] for run in runs} == {"second", "third"}
    assert not [run for run in runs if run.startswith("second") and "gpus2" in run], "the later file wins"


def test_config_on_the_command_line_goes_over_the_default(project):
    project.write_config(first=study())
    runs = project.planned_runs("--config", "studies={first: {num_gpus: [1], repeats: 2}}")
    assert len(runs) == 4 and not [run for run in runs if "gpus2" in run]


def test_a_wrong_config_is_refused_before_the_first_job(project):
    project.write_config(first=study(num_gpus=["two"]))
    output = project.snakemake(expect=1)
    message = 'snakemake: studies.first.num_gpus[0]: "two" is not of type integer; write a whole number'
    assert output.splitlines()[-1] == message, "no file and line of the workflow, which is not at fault"
    assert not (project.folder / "results" / "runs").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"studies:\n  first: {}\n  first: {}\n",
            "config/config.yaml:3: studies.first is given a second time, after line 2",
        ),
        (b"studies:\n  first: caf\xe9\n", "config/config.yaml:2: the byte 0xe9 is not UTF-8; save the file as UTF-8"),
        (
            b"studies:\n\tfirst: {}\n",
            "config/config.yaml:2: found character that cannot start any token; indent by spaces",
        ),
        (b"", "config/config.yaml: the file is empty; begin it with `studies:`"),
        (None, "config/config.yaml: No such file or directory; name an existing file"),
    ],
)
def test_a_default_config_that_cannot_be_read_is_refused(project, content, message):
    path = project.folder / "config" / "config.yaml"
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    assert message in project.snakemake("-n", expect=1)


def test_a_key_that_is_twice_in_a_given_configfile_is_refused(project):
    text = yaml.safe_dump({"studies": {"first": study()}})
    (project.folder / "mine.yaml").write_text(text + "    repeats: 1\n    repeats: 2\n")
    project.write_config("more.yaml", second=study())
    line = len(text.splitlines()) + 2
    output = project.snakemake("-n", "--configfile", "more.yaml", "mine.yaml", expect=1)
    assert f"mine.yaml:{line}: studies.first.repeats is given a second time, after line {line - 1}; keep one" in output


def test_anchors_may_stand_under_keys_that_begin_with_x_and_a_file_with_a_byte_order_mark(project):
    common = yaml.safe_dump({"x-common": study(optimizer={"momentum": 0.5})}).replace(":", ": &common", 1)
    text = f"\ufeff{common}studies:\n  first: *common\n  second: {{<<: *common, num_gpus: [1]}}\n"
    (project.folder / "config" / "config.yaml").write_text(text)
    changed = "studies={second: {optimizer: {momentum: 0.9}}}"
    runs = project.planned_runs("--config", changed)
    assert {run.split("/")[0] for run in runs} == {"first", "second"} and len(runs) == 6
    assert '"momentum": 0.5' in project.snakemake("-n", "-p", "--config", changed, "--until", "train")


def test_a_list_of_models_is_one_study_for_each_and_a_target(project):
    project.write_config(first=study(model=["small_cnn", "resnet44"], num_gpus=[1]), other=study(num_gpus=[1]))
    assert planned_studies(project) == {"first_small_cnn", "first_resnet44", "other"}
    assert planned_studies(project, "first") == {"first_small_cnn", "first_resnet44"}
    assert planned_studies(project, "first_resnet44") == {"first_resnet44"}


def test_doubtful_values_warn(project):
    project.write_config(first=study(loader_workers=1000))
    assert "studies.first.loader_workers: 1000 workers share the 1 core of a cpu device" in project.snakemake("-n")


def test_a_study_named_like_a_rule_is_refused(project):
    project.write_config(train=study())
    assert "studies.train: 'train' is the name of a rule; choose another name" in project.snakemake("-n", expect=1)


def test_too_many_devices_warn_in_a_dry_run_and_stop_a_real_one(project):
    project.write_config(first=study(num_gpus=[1, 512], per_device_batch_size=[2]))
    message = "studies.first.num_gpus: 512 exceeds the"
    assert message in project.snakemake("--dry-run")
    output = project.snakemake(expect=1)
    assert message in output and "lower it or choose another profile" in output
    assert not (project.folder / "results" / "prepared").exists(), "nothing was started"


def test_the_machine_file_can_be_named(project):
    project.write_config(first=study(num_gpus=[1, 512], per_device_batch_size=[2]))
    (project.folder / "large.yaml").write_text("devices: {cpu: {devices_per_node: 512}}\n")
    output = project.snakemake("--dry-run", "--config", "machine=large.yaml")
    assert "large.yaml: devices.cpu.devices_per_node: 512 exceeds the " in output
    assert "lower it, leave it out, or describe a cluster (`scheduler: slurm`)" in output
    assert "studies.first.num_gpus: 512 exceeds the" in project.snakemake("--config", "machine=large.yaml", expect=1)


def test_jobs_for_slurm_with_the_machine_file_of_one_machine_are_refused(project):
    project.write_config(first=study(num_gpus=[1]))
    output = project.snakemake("--executor", "slurm", "--jobs", "1", expect=1)
    assert "slurm submits jobs, but the machine file in force, profiles/local/machine.yaml, has no `sch" in output
    assert not (project.folder / "results" / "prepared").exists(), "nothing was started"


def test_steps_can_be_done_here_with_the_machine_file_of_a_cluster(project):
    """Tables and figures of a cluster's runs need no SLURM."""
    project.write_config(first=study(num_gpus=[1], devices=["core"]))
    device = "{kind: cpu, devices_per_node: 4, max_nodes: 1, cores_per_device: 1, memory_per_device_mb: 900}"
    (project.folder / "cluster.yaml").write_text(f"scheduler: slurm\ndevices:\n  core: {device}\n")
    output = project.snakemake("results/plans/first.json", "--config", "machine=cluster.yaml")
    assert "makes each run a job" not in output
    assert HAS_LIMIT.search(project.read_last_log()), "another job could run beside a measured run"
    assert (project.folder / "results" / "plans" / "first.json").exists()


def test_a_machine_file_with_more_devices_than_runs_use_is_only_doubted(project):
    project.write_config(first=study(num_gpus=[1]))
    (project.folder / "large.yaml").write_text("devices: {cpu: {devices_per_node: 512}}\n")
    output = project.snakemake("--config", "machine=large.yaml", *RUNS)
    assert "devices_per_node: 512 exceeds the " in output


def test_a_measured_run_has_the_machine_alone(project):
    project.write_config(first=study())
    blocks = re.findall(r"rule train:.*?\n\n|rule train:.*", project.snakemake("--dry-run", *LISTED), re.DOTALL)
    assert blocks and all("measurement=100" in block for block in blocks)


def test_options_for_resources_leave_a_measured_run_alone(project):
    """Each of them replaces all that a profile says of the same option."""
    project.write_config(first=study(num_gpus=[1]))
    options = ("--resources", "mem_mb=8000", "--default-resources", "mem_mb=500")
    project.snakemake("results/plans/first.json", *options)
    log = project.read_last_log()
    assert HAS_LIMIT.search(log) and re.search(r"Provided resources: .*\bmem_mb\b.*8000\b", log)
    assert re.search(r"resources: .*\bmem_mb=500, .*\bmeasurement=1\b", log)


def test_packages_named_by_the_shell_do_not_replace_the_pinned_ones(project, tmp_path):
    """Modules of a cluster set PYTHONPATH to packages of another version, or of another Python."""
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "safetensors.py").write_text("raise ImportError('it is for another Python')\n")
    project.write_config(first=study(num_gpus=[1]))
    (project.folder / ".venv").unlink()
    (project.folder / ".venv").symlink_to(sys.prefix)
    environment = project.environment() | {"PYTHONPATH": str(tmp_path / "modules")}
    for command in ([".venv/bin/snakemake"], STARTED_BY_USERS):
        words = [*command, "--dry-run", "--profile", project.profile]
        called = subprocess.run(
            words, cwd=project.folder, env=environment, capture_output=True, text=True, timeout=HANG_S
        )
        assert called.returncode == 0 and "another Python" not in called.stdout + called.stderr
        assert "Expected: " in called.stdout + called.stderr
