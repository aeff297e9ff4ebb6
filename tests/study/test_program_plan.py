"""A study with a program is planned as the same grid, and a doubtful one is warned about."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest
import yaml

from helpers.messages import list_texts, says
from howmanygpus.config.errors import ConfigError
from howmanygpus.measure.program.reports import NUMBER_FORM
from howmanygpus.measure.program.spec import ProgramSpec
from howmanygpus.report.outcomes import read_unit
from howmanygpus.report.tables import describe_table, list_tables, load_table
from howmanygpus.site.machine import Device, Machine
from howmanygpus.study.plan import Plan
from howmanygpus.study.program.checks import warn_about_launcher, warn_about_numbers, warn_about_ranks
from howmanygpus.study.program.study import complete_program_spec
from howmanygpus.study.runs import Run
from project import ROOT

CPU = Machine("machine.yaml", {"cpu": Device(8, 1)})
NODES = Machine("machine.yaml", {"cpu": Device(2, 1, max_nodes=2)})


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.sh").write_text("true\n")


def make_plan(machine=CPU, program=None, **study) -> Plan:
    program = {"command": "sh t.sh", "files": ["t.sh"]} | (program or {})
    return Plan({"studies": {"p": {"program": program, "devices": ["cpu"], **study}}}, machine)


def test_a_study_without_a_program_still_needs_its_keys():
    with pytest.raises(ConfigError, match=r'studies.p: the key "model" is missing; add it'):
        Plan({"studies": {"p": {"dataset": "digits", "frameworks": ["pytorch_ddp"]}}}, CPU)


def test_axes_devices_and_repeats_span_the_grid():
    axes = {"size": ["small", "Very large"], "lr": [0.1, -2]}
    command = "sh t.sh {size} {lr} {seed}"
    plan = make_plan(program={"command": command, "axes": axes}, num_gpus=[1, 2], repeats=2, seed=7)
    assert len(plan.runs) == 16 and not plan.cells
    paths = r"(?:[a-z][a-z0-9_]*/){3}[a-z]+_[a-z0-9]+_[a-z0-9-]+_gpus\d+_batch\d+_repeat\d+"
    assert all(re.fullmatch(paths, path) for path in plan.runs), "as in workflow/rules/wildcards.smk"
    path = "p/p/size_very_large_lr_m2/program_fp32_cpu_gpus2_batch32_repeat2"
    spec = complete_program_spec(Run.from_path(path), json.loads(plan.settings[path]))
    assert spec == plan.studies["p"].spec(plan.runs[path]), "the job completes what the planner has planned"
    read = ProgramSpec(**spec)
    assert (read.global_batch_size, read.seed, read.program["axes"]) == (64, 8, {"size": "Very large", "lr": -2})


def test_a_file_changes_the_settings_by_its_contents_alone(tmp_path):
    before = make_plan().settings
    (tmp_path / "t.sh").touch()
    assert make_plan().settings == before
    (tmp_path / "t.sh").write_text("false\n")
    assert make_plan().settings != before


@pytest.mark.parametrize("change", [{"same_work": ["strategy"]}, {"same_work": ["strategy", "size"]}])
def test_axes_of_the_same_work_change_no_run(change):
    axes = {"size": ["small", "large"], "strategy": ["ddp", "fsdp"]}
    usual = {"command": "sh t.sh {size} {strategy}", "axes": axes}
    before, after = (make_plan(program=usual | more).studies["p"] for more in ({}, change))
    assert [before.spec(run) for run in before.runs] == [after.spec(run) for run in after.runs]
    works = {each["work"] for each in after.describe()["config"]["variants"].values()}
    assert works == ({""} if len(change["same_work"]) == 2 else {"size_small", "size_large"})


def test_the_unit_changes_no_run():
    before, after = make_plan(), make_plan(program={"unit": "tokens"})
    assert before.settings == after.settings
    specs = [[each.studies["p"].spec(run) for run in each.runs.values()] for each in (before, after)]
    assert specs[0] == specs[1], "no run is stale"
    assert [read_unit(each.studies["p"].config) for each in (before, after)] == ["samples", "tokens"]


def test_a_script_outside_program_files_gets_a_warning():
    assert make_plan().find_doubts() == []
    (doubt,) = list_texts(make_plan(program={"files": []}).find_doubts())
    assert doubt.startswith("studies.p.program.files: t.sh is in the command and not here")


@pytest.mark.parametrize(
    ("command", "start", "is_doubt"),
    [
        ("torchrun --nproc-per-node {num_gpus} t.py", "per_device", True),
        ("A=1 /opt/bin/python -m torch.distributed.run t.py", "mpirun", True),
        ("accelerate launch t.py", "per_device", True),
        ("torchrun --nproc-per-node {num_gpus} t.py", "once", False),
        ("torchrun --nproc-per-node {devices_per_node} t.py", "per_node", False),
        ("python t.py --launcher=torchrun-like", "per_device", False),
    ],
)
def test_processes_that_each_start_all_others_are_a_doubt(command, start, is_doubt):
    """A run on two devices would be two trainings with two processes each, of which one is measured."""
    found = warn_about_launcher("studies.p.program", {"command": command, "start": start})
    assert bool(found) == is_doubt and all(says(each, start, "start: once") for each in found)


def test_a_torchrun_that_chooses_its_first_node_is_a_doubt():
    place, command = "studies.p.program", "torchrun --rdzv-backend c10d --rdzv-endpoint {rendezvous} t.py"
    (doubt,) = list_texts(warn_about_ranks(place, {"command": command}, 2))
    assert doubt.startswith("studies.p.program.command: ") and "`--node-rank $NODE_RANK " in doubt
    assert not warn_about_ranks(place, {"command": command}, 1)
    assert not warn_about_ranks(place, {"command": "torchrun --node-rank $NODE_RANK t.py"}, 2)


def test_a_script_that_is_not_there_is_a_doubt(tmp_path):
    def doubt(command, **program):
        return list_texts(make_plan(program={"command": command, **program}).find_doubts())

    gone = f"studies.p.program.command: trian.py does not exist, seen from {tmp_path}; correct the path"
    assert doubt("python3 -u trian.py --out new.py --seed {seed}") == [gone]
    assert doubt("A=1 python3 trian.py && echo done") == [gone]
    for command in (
        "mkdir code && cd code && python3 trian.py",
        "python3 -m trian a.py",
        "python3 $CODE/a.py",
        "sh {s}.sh",
    ):
        axes = {"s": ["t"]} if "{s}" in command else {}
        assert doubt(command, axes=axes) == []


def test_metrics_of_which_none_is_the_studys_are_a_doubt():
    report = [r"step (?P<step>\d+)", r"epoch (?P<epoch>\d+): (?P<acc>\S+)"]
    assert list_texts(make_plan(program={"report": report}).find_doubts()) == [
        "studies.p.program.report: has the group acc and not accuracy, the study's quality.metric, so that runs have "
        "no quality; rename the group or set quality.metric"
    ]
    assert make_plan(program={"report": [report[0], report[1].replace("acc", "accuracy")]}).find_doubts() == []
    assert make_plan(program={"report": report[:1]}).find_doubts() == []


@pytest.mark.parametrize(
    ("expression", "missed"),
    [
        ("loss (?P<loss>[0-9.]+)", ["loss", "-0.12", "2.0e-05", "nan", "inf"]),
        ("(?P<epoch>[0-9]+): (?P<accuracy>[0-9.]+)", ["accuracy", "2.0e-05"]),
        (r"loss (?P<loss>(?:\d+\.\d+|nan)) at", ["loss", "inf"]),
        (rf"loss (?P<loss>{NUMBER_FORM})", []),
        (r"loss (?P<loss>\S+)", []),
    ],
)
def test_a_group_that_does_not_take_every_number_is_a_doubt(expression, missed):
    program = {"report": [r"step (?P<step>\d+)", expression]}
    doubts = warn_about_numbers("studies.mine.program", program)
    assert [says(doubt, "report[1]", *missed, NUMBER_FORM) for doubt in doubts] == [True] * bool(missed)


def test_paths_of_a_program_may_begin_with_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "python").write_text("")
    (tmp_path / "python").chmod(0o755)
    plan = make_plan(program={"python": "~/python", "files": ["$HOME/t.sh"]})
    (run,) = plan.runs.values()
    program = plan.studies["p"].spec(run)["program"]
    assert program["python"] == f"{tmp_path}/python" and set(program["files"]) == {f"{tmp_path}/t.sh"}


def test_a_program_that_starts_once_is_unsupported_on_several_nodes():
    runs = make_plan(NODES, num_gpus=[2, 4]).runs.values()
    assert [run.unsupported for run in runs] == [
        "",
        "a program that starts once uses one node, and 4 devices are on 2",
    ]
    assert not any(run.unsupported for run in make_plan(NODES, {"start": "per_node"}, num_gpus=[2, 4]).runs.values())


@pytest.mark.parametrize(
    ("example", "study", "variants"),
    [
        ("program", "mine", {"model_small", "model_large"}),
        ("tokens", "language_model", {"base"}),
        (
            "strategies",
            "gpt",
            {f"size_{size}_strategy_{name}" for size in ("small", "large") for name in ("ddp", "zero1", "fsdp2")},
        ),
    ],
)
def test_a_study_of_the_documentation_can_be_planned(tmp_path, example, study, variants):
    text = (ROOT / "docs" / "program.md").read_text()
    config = yaml.safe_load(re.search(rf"<!-- example: {example} -->\n```yaml\n(.*?)```", text, re.DOTALL)[1])
    for name in config["studies"][study]["program"]["files"]:
        (tmp_path / name).touch()
    config["studies"][study]["devices"] = ["cpu"]
    plan = Plan(config, CPU)
    assert {(run.framework, run.variant) for run in plan.runs.values()} == {(study, each) for each in variants}
    assert not plan.find_doubts()


def test_mpirun_must_be_found(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", "/usr/sbin:/bin" if not Path("/bin/mpirun").exists() else str(tmp_path))
    program = {"start": "mpirun", "command": "echo {seed}"}
    with pytest.raises(ConfigError, match=r'program\.start: "mpirun" is not in PATH; load its'):
        make_plan(program=program)
    for name in ("python", "mpirun"):
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o755)
    assert make_plan(program=program | {"python": str(tmp_path / "python")}).runs


def test_the_example_can_be_planned(monkeypatch):
    monkeypatch.chdir(ROOT)
    config = yaml.safe_load((ROOT / "examples/program/config.yaml").read_text())
    plan = Plan(config, CPU)
    assert {run.framework for run in plan.runs.values()} == set(config["studies"]) and not plan.find_doubts()


def test_every_table_can_be_made_of_a_program_that_has_not_run(tmp_path):
    plan = json.loads(json.dumps(make_plan(num_gpus=[1, 2]).studies["p"].describe()))
    made: dict[str, pd.DataFrame] = {}
    sources = {"results": tmp_path, "allreduces": [], "decision": None, "searches": {}, "past_checks": pd.DataFrame()}
    waiting = [name for name in list_tables(published=False) if "ledger" not in describe_table(name).reads]
    while waiting:
        name = waiting.pop(0)
        table = describe_table(name)
        if missing := [each for each in table.inputs if each not in made]:
            assert set(missing) <= set(waiting), name
            waiting.append(name)
            continue
        inputs = {each: made[each] for each in table.inputs} | {each: sources[each] for each in table.sources}
        made[name] = load_table(name).tabulate(plan, **inputs)
    assert len(made["runs"]) == 2 and made["class_auc"].empty
