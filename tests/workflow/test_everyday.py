"""What people do with Snakemake every day beside running: graphs, summaries, archives, reports, touching, forcing."""

import os
import subprocess
import tarfile
import zipfile

import pytest

from forking import STARTED_BY_USERS
from hanging import HANG_S
from project import Project, study

RUN = "small/sleeping/base/arrays_fp32_cpu_gpus1_batch64_repeat1"


@pytest.fixture(scope="module")
def done(tmp_path_factory) -> Project:
    """Return a project with all results of a small study."""
    project = Project(tmp_path_factory.mktemp("everyday") / "project", fakes=["sleeping"])
    project.leave_figures_blank()
    project.write_config(small=study(frameworks=["sleeping"], num_gpus=[1]))
    project.snakemake()
    return project


def print_alone(project: Project, *arguments: str) -> str:
    """Return what a call prints on its standard output, which other programs read."""
    command = [*STARTED_BY_USERS, "--profile", project.profile, *arguments]
    options = {"cwd": project.folder, "env": project.environment(), "capture_output": True, "text": True}
    made = subprocess.run(command, **options, timeout=HANG_S)
    assert made.returncode == 0, made.stderr[-3000:]
    return made.stdout


@pytest.mark.parametrize("option", ["--dag", "--rulegraph", "--filegraph"])
def test_a_graph_is_all_that_is_printed(done, option):
    graph = print_alone(done, option)
    assert graph.startswith("digraph snakemake_dag {") and graph.rstrip().endswith("}")
    assert "train" in graph and "make_tables" in graph


def test_a_summary_has_a_row_for_each_file_and_needs_no_update(done):
    head, *rows = [line.split("\t") for line in print_alone(done, "--summary").splitlines()]
    assert head[0] == "output_file" and {len(row) for row in rows} == {len(head)}
    plans = {row[0]: row[head.index("plan")] for row in rows}
    assert plans[f"results/runs/{RUN}/run.json"] == "no update" and set(plans.values()) == {"no update"}


def test_an_archive_has_code_and_config(done, tmp_path):
    project = done.copy_to(tmp_path / "project")
    named = {f"GIT_{who}_{what}": "someone" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    files = ("workflow", "config", "profiles", "envs", "Snakefile")
    for words in (["init", "-q"], ["add", *files], ["commit", "-qm", "all"]):
        subprocess.run(["git", *words], cwd=project.folder, env=os.environ | named, check=True)
    project.snakemake("--archive", "archive.tar.gz")
    with tarfile.open(project.folder / "archive.tar.gz") as packed:
        names = set(packed.getnames())
    assert {"Snakefile", "workflow/Snakefile", "workflow/rules/train.smk", "config/config.yaml"} <= names


def test_a_report_is_a_zip_file_with_the_answer(done):
    done.snakemake("--report", "report.zip")
    with zipfile.ZipFile(done.folder / "report.zip") as packed:
        assert any(name.endswith("answer.txt") for name in packed.namelist())


def change_rule(project: Project) -> None:
    """Give the rule list_jobs another command."""
    rules = project.folder / "workflow" / "rules" / "tables.smk"
    rules.write_text(rules.read_text().replace("{HOWMANYGPUS}/list_jobs.py", "nice {HOWMANYGPUS}/list_jobs.py"))


def test_touching_takes_results_as_they_are(done, tmp_path):
    project = done.copy_to(tmp_path / "project")
    change_rule(project)
    assert "list_jobs small" in project.planned()
    project.snakemake("--touch")
    assert project.planned() == []


def test_changes_are_listed(done, tmp_path):
    project = done.copy_to(tmp_path / "project")
    for kind in ("code", "input"):
        assert print_alone(project, "--list-changes", kind) == ""
    change_rule(project)
    assert print_alone(project, "--list-changes", "code").split() == ["results/records/small.ledger.json"]


def test_until_stops_at_a_rule(done, tmp_path):
    project = done.copy_to(tmp_path / "project")
    (project.folder / "results" / "tables" / "small" / "runs.tsv").unlink()
    assert project.planned("--until", "make_tables") == ["make_tables small"]
    assert len(project.planned()) > 1


def test_a_forced_rule_is_done_again_with_what_follows(done):
    assert done.planned("-R", "merge_tables", "--until", "merge_tables") == ["merge_tables"]
    assert RUN in done.planned("-R", "train")
