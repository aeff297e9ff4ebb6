"""`available` builds from what exists and starts nothing else, and no report describes other runs than it shows."""

import hashlib
import json

import pytest

from helpers.messages import says
from helpers.records import make_attempt
from helpers.specs import make_spec
from howmanygpus.files import find_files
from project import Project, study

SLEEPING, DOZING = (f"small/{name}/base/arrays_fp32_cpu_gpus1_batch64_repeat1" for name in ("sleeping", "dozing"))
SMALL = {"frameworks": ["sleeping"], "num_gpus": [1]}
REPORT = ("--report", "results/report.html")
STARTED = ("runs", "attempts", "jobs", "prepared", "weights", "parity", "environments")


@pytest.fixture(scope="module")
def finished(tmp_path_factory, prepared):
    """Return a project with a report of one run."""
    project = Project(tmp_path_factory.mktemp("finished") / "project")
    project.take_prepared(prepared)
    project.leave_figures_blank()
    project.write_config(small=study(**SMALL))
    project.snakemake()
    project.snakemake(*REPORT)
    return project


@pytest.fixture
def project(finished, tmp_path):
    return finished.copy_to(tmp_path / "project")


def hash_started(project: Project) -> dict[str, str]:
    """Return the hashes of all files that runs, gates and preparations write; the gate's page is a product."""
    files = [path for name in STARTED for path in find_files(project.folder / "results" / name, "**/*")]
    files = [path for path in files if path.is_file() and path.name != "parity.html"]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def change_settings(project: Project) -> str:
    project.write_config(small=study(**SMALL, steps=30))
    return "steps: 24 -> 30"


def change_code(project: Project) -> str:
    project.edit("workflow/lib/howmanygpus/measure/frameworks/fake/sleeping.py", "\nANSWER = 42\n")
    return "measure/frameworks/fake/sleeping.py"


def change_pins(project: Project) -> str:
    project.edit("envs/fake-cpu.txt", "toml==0.10.2\n")
    project.record_fake_environment()
    return "pins of the environment changed"


def change_data(project: Project) -> str:
    path = project.folder / "results" / "prepared" / "digits" / "arrays" / "dataset.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"channel_mean": [77.0]}))
    return "results/prepared/digits/arrays/dataset.json"


def add_a_framework(project: Project) -> str:
    project.write_config(small=study(**SMALL | {"frameworks": ["sleeping", "dozing"]}))
    return DOZING


def change_another_framework(project: Project) -> str:
    project.write_config(small=study(**SMALL | {"frameworks": ["dozing"]}))
    return DOZING


STALE = [change_settings, change_code, change_pins, change_data]


@pytest.mark.parametrize("change", STALE, ids=lambda change: change.__name__)
def test_available_starts_nothing_after_an_edit_and_names_stale_runs(project, change):
    named = change(project)
    before = hash_started(project)
    printed = project.snakemake("available", "--forceall")
    assert hash_started(project) == before
    assert named in printed and SLEEPING in printed
    assert "code or data: 1 run" in " ".join(project.read("results/tables/small/answer.txt").split())
    (row,) = project.read_rows()
    assert row["status"] == ("stale" if change is change_settings else "completed")
    assert row["stale_because"] and bool(row["images_per_s"]) == (row["status"] == "completed")
    assert project.planned("available") == []
    project.snakemake("available", *REPORT)
    assert "Stale, made with other settings, code or data: 1 run" in project.read("results/report.html")
    assert hash_started(project) == before


def test_available_names_missing_runs_and_starts_none(project):
    add_a_framework(project)
    before = hash_started(project)
    project.snakemake("available", "--forcerun", "train")
    assert hash_started(project) == before
    assert "1 completed, 1 missing" in project.read("results/tables/small/answer.txt")


@pytest.mark.parametrize("change", [*STALE, add_a_framework, change_another_framework], ids=lambda each: each.__name__)
def test_a_report_that_contradicts_the_config_is_refused_with_the_remedy(project, change):
    page = project.read("results/report.html")
    named = change(project)
    printed = project.snakemake(*REPORT, expect=1)
    assert project.read("results/report.html") == page
    assert named in printed and "--report: no report is written" in printed
    assert ".venv/bin/snakemake --profile profiles/local\n" in printed
    assert ".venv/bin/snakemake available --profile profiles/local," in printed


def test_no_rerun_trigger_lets_a_report_describe_other_settings(project):
    change_settings(project)
    assert "plan_runs" in project.snakemake(*REPORT, "--rerun-triggers", "mtime", expect=1)


def test_available_starts_nothing_where_nothing_exists(tmp_path):
    project = Project(tmp_path / "project")
    project.leave_figures_blank()
    project.write_config(small=study(**SMALL))
    before = hash_started(project)
    project.snakemake("available")
    assert hash_started(project) == before
    assert "1 missing" in project.read("results/tables/small/answer.txt")
    assert SLEEPING in project.snakemake(*REPORT, expect=1)


def test_the_timeline_of_a_run_is_drawn_on_demand_and_repeats_nothing(project):
    """The code of the run has changed, so that any target that depends on the run would repeat it."""
    change_code(project)
    before = hash_started(project)
    figure = f"results/timelines/{SLEEPING}.svg"
    project.snakemake(figure)
    assert f"runs/{SLEEPING}: completed, 1 device" in project.read(figure)
    assert hash_started(project) == before
    assert project.planned(figure) == []


def test_an_attempt_has_a_timeline_and_a_run_that_was_never_tried_is_named(project):
    attempt = project.folder / "results" / "attempts" / DOZING / "20260101T000000-1" / "attempt.json"
    figure = f"results/timelines/{DOZING}.svg"
    assert f"results/runs/{DOZING}/run.json does not exist" in project.snakemake(figure, expect=1)
    attempt.parent.mkdir(parents=True)
    attempt.write_text(json.dumps(make_attempt(make_spec(), "out_of_memory")))
    window = {"event": "window", "phase": "compile", "wall_s": 5.0, "elapsed_s": 1.0}
    (attempt.parent / "events.jsonl").write_text(json.dumps(window))
    project.snakemake(figure)
    assert "20260101T000000-1: out_of_memory, 1 device" in project.read(figure)


@pytest.mark.parametrize("name", ["sleeping", f"results/runs/{SLEEPING}", SLEEPING.replace("base", "bse")])
def test_a_timeline_of_a_misspelt_run_is_refused_with_the_nearest_run(project, name):
    printed = project.snakemake(f"results/timelines/{name}.svg", expect=1)
    assert says(printed, f"results/timelines/{name}.svg", "runs.tsv", f"did you mean results/timelines/{SLEEPING}.svg?")
    assert "Traceback" not in printed and "MissingRuleException" not in printed
