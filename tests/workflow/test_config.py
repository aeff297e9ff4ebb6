"""The config works as Snakemake users expect: default file, several files, command line, and refused values."""

import re

from project import study


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
    assert 'studies.first.num_gpus[0]: "two" is not of type integer' in output
    assert not (project.folder / "results" / "runs").exists()


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
    assert "exceeds" not in project.snakemake("--dry-run", "--config", "machine=large.yaml")


def test_a_measured_run_has_the_machine_alone(project):
    project.write_config(first=study())
    blocks = re.findall(r"rule train:.*?\n\n|rule train:.*", project.snakemake("--dry-run"), re.DOTALL)
    assert blocks and all("measurement=100" in block for block in blocks)
