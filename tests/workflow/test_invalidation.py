"""A change reruns exactly the jobs that depend on it. All jobs really run, with fake backends and blank figures."""

import os
import re
import shutil
import subprocess

import pytest

from project import RUNS, TABLES, Project, study

ALL_RUNS = [
    f"{name}/{framework}/base/arrays_fp32_cpu_gpus{count}_batch64_repeat1"
    for name in ("first", "second")
    for framework in ("sleeping", "dozing")
    for count in (1, 2)
]
CONSTANT = "\nA_NEW_CONSTANT = 1\n"
READ_BY_PEOPLE = '\n\n# A comment.\n"""Documentation of nothing in particular."""\n'
GATE = ["leave_unchecked", "leave_unchecked", "write_parity_page"]
MERGED = ["all", "merge_answers", "merge_tables", "write_all_runs", "write_table_pages"]


def analysis_of(*studies: str) -> list[str]:
    """Return all jobs downstream of the runs of some studies."""
    rules = ("list_jobs", "make_tables", "answer_question", "draw_figures")
    return [f"{rule} {name}" for name in studies for rule in rules] + MERGED


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Project:
    """Return a project in which two studies have run to the end. Tests work on copies of it."""
    project = Project(tmp_path_factory.mktemp("finished") / "project", fakes=("dozing",))
    project.add_fake("sleeping", family="torch", strategy="ddp")
    project.leave_figures_blank()
    project.write_config(first=study(), second=study())
    project.snakemake()
    return project


@pytest.fixture
def copy(finished, tmp_path) -> Project:
    return finished.copy_to(tmp_path / "project")


def test_a_second_call_does_nothing(finished):
    assert finished.planned() == []


def test_editing_a_constant_of_a_strategy_reruns_exactly_its_runs(copy):
    copy.edit("workflow/lib/howmanygpus/measure/frameworks/torch/ddp.py", CONSTANT)
    runs = [run for run in ALL_RUNS if "/sleeping/" in run]
    assert copy.planned() == sorted([*runs, "leave_unchecked", "write_parity_page", *analysis_of("first", "second")])


def test_editing_one_strategy_reruns_its_runs_and_only_once(copy):
    copy.edit("workflow/lib/howmanygpus/measure/frameworks/fake/dozing.py", CONSTANT)
    runs = [run for run in ALL_RUNS if "/dozing/" in run]
    assert copy.planned() == sorted([*runs, "leave_unchecked", "write_parity_page", *analysis_of("first", "second")])
    before = {run: copy.read(f"results/runs/{run}/run.json") for run in ALL_RUNS}
    copy.snakemake(*RUNS)
    changed = [run for run in ALL_RUNS if copy.read(f"results/runs/{run}/run.json") != before[run]]
    assert sorted(changed) == sorted(runs)
    assert copy.planned(*RUNS) == []


@pytest.mark.parametrize(
    "path", ["loop/loop.py", "frameworks/fake/dozing.py", "frameworks/torch/ddp.py", "networks/small_cnn.py"]
)
def test_editing_comments_and_docstrings_reruns_nothing(copy, path):
    copy.edit(f"workflow/lib/howmanygpus/measure/{path}", READ_BY_PEOPLE)
    assert copy.planned() == []


def test_editing_what_is_not_executed_while_a_run_is_measured_reruns_none(copy):
    """Also not the gate, whose verdict names a crash by the same code."""
    explaining = [f"measure/launch/{name}" for name in ("endings", "settling", "calls", "attempts")]
    for name in (*explaining, "site/slurm", "base/secrets", "base/environment", "measure/around/schema"):
        copy.edit(f"workflow/lib/howmanygpus/{name}.py", CONSTANT)
    assert copy.planned_runs() == [] and "leave_unchecked" not in copy.planned()


def replace_text(project: Project, path: str, old: str, new: str) -> None:
    file = project.folder / "workflow/lib/howmanygpus" / path
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))


def test_rewording_an_error_of_the_launcher_reruns_nothing(copy):
    replace_text(copy, "measure/launch/launch.py", "the time limit of this run", "which is what the study allows")
    assert copy.planned() == []


def test_moving_a_module_to_another_folder_reruns_nothing(copy):
    measure = copy.folder / "workflow/lib/howmanygpus/measure"
    (measure / "launch/staging.py").rename(measure / "input/staging.py")
    for path in ("measure/launch/rank_process.py", "measure/loop/train.py"):
        replace_text(copy, path, "howmanygpus.measure.launch.staging", "howmanygpus.measure.input.staging")
    assert copy.planned() == []


def test_a_comment_in_pins_reruns_nothing(copy):
    for name in ("measured", "fake-cpu"):
        copy.edit(f"envs/{name}.txt", "\n# A comment.\n\n")
    assert copy.planned() == []


@pytest.mark.parametrize("name", ["fake-cpu", "measured"])
def test_changed_pins_rerun_the_runs_of_their_environment(copy, name):
    copy.edit(f"envs/{name}.txt", "\npackage==1.0\n")
    copy.record_fake_environment()
    assert copy.planned() == sorted([*ALL_RUNS, *GATE, *analysis_of("first", "second")])


def test_editing_one_figure_draws_the_figures_again_and_makes_no_table(copy):
    copy.edit("workflow/lib/howmanygpus/report/figures/speedup.py", CONSTANT)
    assert copy.planned() == sorted(["all", "draw_figures first", "draw_figures second"])


def test_an_added_study_draws_only_its_own_figures(copy):
    copy.write_config(first=study(), second=study(), third=study(num_gpus=[1]))
    drawn = [job for job in copy.planned() if job.startswith("draw_")]
    assert drawn == ["draw_figures_of_third third"], "with one device count it has fewer figures"


def test_editing_the_loop_reruns_all_runs(copy):
    copy.edit("workflow/lib/howmanygpus/measure/loop/loop.py", CONSTANT)
    assert copy.planned() == sorted([*ALL_RUNS, *GATE, *analysis_of("first", "second")])


def test_changing_the_parity_policy_reruns_no_training(copy):
    copy.write_config(first=study(parity="report"), second=study())
    assert copy.planned_runs() == []


def test_editing_a_metric_recomputes_tables_and_figures_but_no_run(copy):
    copy.edit("workflow/lib/howmanygpus/report/metrics/accuracy.py", CONSTANT)
    behind = [job for job in analysis_of("first", "second") if "list_jobs" not in job]
    assert copy.planned() == sorted(behind)


def test_changing_one_studys_steps_reruns_that_study(copy):
    copy.write_config(first=study(), second=study(steps=30))
    runs = [run for run in ALL_RUNS if run.startswith("second/")]
    assert copy.planned() == sorted([*runs, "plan_runs second", *analysis_of("second")])


def test_an_added_device_count_runs_the_new_cells(copy):
    copy.write_config(first=study(num_gpus=[1, 2, 4]), second=study())
    (copy.folder / "profiles" / "local" / "machine.yaml").write_text("devices: {cpu: {devices_per_node: 4}}\n")
    new = [f"first/{name}/base/arrays_fp32_cpu_gpus4_batch64_repeat1" for name in ("sleeping", "dozing")]
    # The page says up to how many devices the gate checks what is planned.
    assert copy.planned() == sorted([*new, "plan_runs first", "write_parity_page", *analysis_of("first")])


def test_a_new_key_with_its_default_reruns_nothing(copy):
    explicit = study(window_steps=50, scaling="weak", optimizer={"momentum": 0.9}, exclude=[], time_limit_min=60)
    copy.write_config(first=explicit, second=study())
    assert copy.planned() == []


def test_a_key_added_to_the_schema_with_its_default_reruns_nothing(copy):
    schema = copy.folder / "workflow" / "schemas" / "config.schema.yaml"
    key = "      time_limit_min:\n"
    new_key = "      colour:\n        description: New.\n        type: string\n        default: red\n"
    schema.write_text(schema.read_text().replace(key, new_key + key, 1))
    assert copy.planned() == []


def test_a_reworded_setting_reruns_no_run(copy):
    table = copy.folder / "workflow" / "lib" / "howmanygpus" / "settings.py"
    text = table.read_text()
    assert text.count('doc="Momentum of sgd."') == 1
    table.write_text(text.replace('doc="Momentum of sgd."', 'doc="The momentum of sgd."'))
    assert copy.planned_runs() == []


def test_touching_any_file_reruns_nothing(copy):
    for top in ("Snakefile", "workflow", "config", "profiles", "envs"):
        subprocess.run(["find", top, "-type", "f", "-exec", "touch", "{}", "+"], cwd=copy.folder, check=True)
    assert copy.planned() == []


def test_changing_the_thresholds_recomputes_without_running(copy):
    copy.write_config(first=study(quality={"thresholds": [0.3]}), second=study())
    behind = [job for job in analysis_of("first") if job != "list_jobs first"]
    assert copy.planned() == sorted(["plan_runs first", *behind])


def test_changed_pins_build_their_environment_and_rerun_its_runs_in_one_call(copy):
    copy.edit("envs/fake-cpu.txt", "\npackage==1.0\n")
    assert copy.planned() == sorted(["build_environment", *ALL_RUNS, *GATE, *analysis_of("first", "second")])


def test_a_change_beside_a_changed_plan_is_not_overlooked(copy):
    copy.write_config(first=study(repeats=2), second=study())
    copy.edit("workflow/lib/howmanygpus/measure/frameworks/fake/dozing.py", CONSTANT)
    assert {run for run in ALL_RUNS if "/dozing/" in run} <= set(copy.planned())


def test_missing_runs_are_planned_beside_an_environment_that_is_built_again(copy):
    """The other runs of that environment are not run again."""
    missing = ALL_RUNS[0]
    shutil.rmtree(copy.folder / "results" / "runs" / missing)
    planned = copy.planned("--forcerun", "build_environment")
    assert planned == sorted([missing, "build_environment", *analysis_of("first")])


def test_editing_a_network_draws_its_weights_and_reruns_its_runs(copy):
    copy.edit("workflow/lib/howmanygpus/measure/networks/small_cnn.py", CONSTANT)
    assert copy.planned() == sorted(["initialize_weights", *ALL_RUNS, *GATE, *analysis_of("first", "second")])


def test_editing_another_network_reruns_nothing(copy):
    copy.edit("workflow/lib/howmanygpus/measure/networks/resnet44.py", CONSTANT)
    assert copy.planned() == []


def test_a_removed_study_leaves_the_tables(copy):
    copy.write_config(first=study())
    assert copy.planned_runs() == []
    copy.snakemake(*TABLES)
    assert "second" not in copy.read("results/tables/runs.tsv")


def test_results_adopted_into_a_fresh_clone_rerun_nothing(finished, tmp_path):
    clone = Project(tmp_path / "clone", fakes=("dozing",))
    clone.add_fake("sleeping", family="torch", strategy="ddp")
    clone.leave_figures_blank()
    shutil.rmtree(clone.folder / "results")
    clone.write_config(first=study(), second=study())
    subprocess.run(["make", "adopt", f"FROM={finished.folder}"], cwd=clone.folder, check=True, capture_output=True)
    assert clone.planned() == []


def test_adopting_needs_results_and_a_fresh_clone(finished, tmp_path):
    clone = Project(tmp_path / "clone")
    command = ["make", "adopt", f"FROM={finished.folder}"]
    refused = subprocess.run(command, cwd=clone.folder, capture_output=True, text=True)
    assert refused.returncode != 0 and "results/ exists here" in refused.stderr
    refused = subprocess.run(["make", "adopt", "FROM=nowhere"], cwd=clone.folder, capture_output=True, text=True)
    assert refused.returncode != 0 and "FROM=nowhere has no results/" in refused.stderr


def test_one_study_runs_alone_by_its_name(finished, tmp_path):
    project = Project(tmp_path / "project")
    project.write_config(first=study(), second=study())
    runs = [run for run in ALL_RUNS if run.startswith("second/")]
    others = [
        "leave_unchecked",
        "leave_unchecked",
        "initialize_weights",
        "plan_runs second",
        "prepare_arrays",
        "second",
    ]
    alone = [job for job in analysis_of("second") if job.endswith(" second")]
    assert project.planned("second") == sorted([*runs, *others, *alone])


@pytest.mark.parametrize("rule", ["make_tables", "draw_figures", "answer_question"])
def test_a_printed_shell_line_can_be_pasted_into_a_shell(copy, rule):
    """It makes the same again, in the project's folder, with nothing that Snakemake sets out of sight."""
    printed = copy.snakemake("-n", "-p", "--quiet", "host", "--forcerun", rule)
    job = printed[printed.index(f"rule {rule}:") :]
    output = copy.folder / job.split("output:")[1].splitlines()[0].split(",")[0].strip()
    line = re.split(r"\n\s*\n|\n\[", job.split("Shell command:")[1])[0]
    before = output.read_bytes()
    output.unlink()
    subprocess.run(["bash", "-c", line], cwd=copy.folder, env={"PATH": os.environ["PATH"]}, check=True)
    assert output.read_bytes() == before
