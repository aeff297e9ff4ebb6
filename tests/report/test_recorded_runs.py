"""Every table and figure is made from the recorded runs, which name no host and no place of the machine."""

import json
import os
import re
import tarfile
from graphlib import TopologicalSorter
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
import yaml

import recorded_runs
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.report import all_runs
from howmanygpus.report.figures import describe_figure, list_figures, load_figure
from howmanygpus.report.files import read_table, write_table
from howmanygpus.report.published import drop_unfair
from howmanygpus.report.rows import merge_tables
from howmanygpus.report.style import save_svg
from howmanygpus.report.tables import describe_table, list_tables, load_table
from howmanygpus.site.jobs.ledger import complete_and_list_jobs
from howmanygpus.site.machine import read_machine
from howmanygpus.study.plan import Plan
from howmanygpus.study.published import list_files, list_published_columns

NEED_CLUSTER = {"allreduce", "placement"}
"""Tables and figures of studies over several nodes, which the recorded machine does not have."""
NEED_SEARCH = {"batch_search"}
"""The largest batch of CPU devices is that of the machine's memory, whose search takes minutes."""
NEED_TRACES = {"traces", "trace_strips"}
"""No recorded run was traced: its trace is larger than the whole set."""
LEFT_OUT = NEED_CLUSTER | NEED_SEARCH | NEED_TRACES
SIZE_BYTES = 2_000_000
EMPTY_HERE = {"class_auc"}
"""Tables without rows for images with one label each."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with the recorded runs."""
    folder = tmp_path_factory.mktemp("recorded")
    recorded_runs.unpack(folder)
    return folder


@pytest.fixture(scope="module")
def recorded(folder):
    """Make all tables of the recorded studies, and return them with the config, by study."""
    plan = Plan(yaml.safe_load(recorded_runs.CONFIG.read_text()), read_machine(recorded_runs.MACHINE))
    ledger = {str(path): record for path, record in complete_and_list_jobs(folder / "results" / "jobs", folder).items()}
    return {name: (study.config, make_tables(folder, study, ledger)) for name, study in plan.studies.items()}


def make_tables(folder, study, ledger):
    """Make the tables of a study in the order of what they are made from; they are written and read."""
    published = [Path(path) for path in list_files(study.config["published"])]
    names = list_tables(study.config, preflight=False, published=bool(published), searched=False)
    needs = {name: describe_table(name).inputs for name in names}
    inputs = {"results": folder, "ledger": ledger, "published": published, "decision": None, "allreduces": []}
    made = {}
    for name in TopologicalSorter(needs).static_order():
        given = {each: made[each] if each in made else inputs[each] for each in load_table(name).READS}
        path = folder / "tables" / study.name / f"{name}.tsv"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_table(path, load_table(name).tabulate(study.describe(), **given))
        made[name] = read_table(path)
    return made


def test_every_table_has_rows_of_recorded_runs(recorded):
    filled = {name for _, tables in recorded.values() for name, table in tables.items() if len(table)}
    assert set(list_tables()) - filled == LEFT_OUT | EMPTY_HERE


def test_every_recorded_run_is_completed_and_as_planned(recorded):
    for name, (_, tables) in recorded.items():
        statuses = tables["runs"]["status"].value_counts()
        assert set(statuses.index) <= {"completed", "unsupported"} and statuses["completed"] >= 8, name


@pytest.mark.parametrize("name", sorted(set(list_figures()) - LEFT_OUT))
def test_every_figure_is_drawn_from_recorded_runs(recorded, tmp_path, name):
    """Of at least one study: a figure without anything to show has no axes."""
    drawn = []
    for config, tables in recorded.values():
        if name not in list_figures(config, priced=True, published=list_published_columns(config)):
            continue
        read = {table: tables[table] for table in describe_figure(name).tables}
        figure = load_figure(name).draw(**(read if describe_figure(name).shows_unfair else drop_unfair(read)))
        save_svg(figure, tmp_path / "figure.svg")
        plt.close(figure)
        drawn.append(bool(figure.axes))
    assert any(drawn)


def test_the_page_of_all_runs_has_less_than_two_kilobytes_for_each_run(folder, recorded):
    parts, merged = [folder / "tables" / name / "runs.tsv" for name in recorded], folder / "runs.tsv"
    merge_tables(parts, merged)
    timelines = [tables["timelines"] for _, tables in recorded.values()]
    facts = all_runs.collect(all_runs.read_rows(merged), read_table(merged), timelines, folder)
    page, empty = (all_runs.render(facts | changes, {}) for changes in ({}, {"rows": [], "details": []}))
    assert len(facts["details"]) == len(read_table(merged)) > 70
    done = [run for run in facts["details"] if run["values"]["status"] == "completed"]
    assert all("record" in run and "timeline" in run for run in done)
    assert len(page) - len(empty) < 2000 * len(facts["details"])


def read_archive():
    """Return the contents of the archive by their names."""
    with tarfile.open(recorded_runs.ARCHIVE) as packed:
        return {entry.name: packed.extractfile(entry).read() for entry in packed.getmembers()}


def test_the_archive_is_small_and_has_every_framework():
    assert recorded_runs.ARCHIVE.stat().st_size < SIZE_BYTES
    runs = [json.loads(text) for name, text in read_archive().items() if name.endswith("/run.json")]
    assert {run["spec"]["framework"] for run in runs} == set(FRAMEWORKS)


def test_the_archive_names_no_host_and_no_place():
    for name, content in read_archive().items():
        if not name.endswith((".npz", ".npy")):
            text = name + content.decode()
            assert not re.search(r"/root|/home|/tmp|/Users", text), name
            assert set(recorded_runs.ADDRESS.findall(text)) <= {"192.0.2.1"}, name
        if name.endswith(".json"):
            record = json.loads(content)
            assert "environment" not in record
            assert all(host.startswith("recorded") for host in recorded_runs.find_hosts(record)), name


def test_keeping_the_same_results_gives_the_same_archive_without_names_of_hosts(tmp_path):
    """Hosts are also part of the names of files."""
    results = tmp_path / "clone" / "results"
    run = results / "runs" / "all_frameworks" / "a" / "run.json"
    job = results / "jobs" / "run" / "all_frameworks" / "a" / "20260101T000000-gpu7-12.json"
    for path, record in (
        (run, {"host": {"hostname": "gpu7"}, "environment": {"kept": ["X"]}, "address": "10.1.2.3:80"}),
        (job, {"hostname": "gpu7", "attempt": f"{tmp_path}/clone/results/attempts", "reason": "gpu7.site and gpu77"}),
    ):
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(record))
    (results / "logs").mkdir()
    (results / "logs" / "secret.log").write_text("gpu7")
    archives = [tmp_path / name for name in ("first", "second")]
    for archive in archives:
        recorded_runs.keep(results, archive)
        os.utime(run)
    assert archives[0].read_bytes() == archives[1].read_bytes()
    with tarfile.open(archives[0]) as packed:
        kept = {entry.name: json.load(packed.extractfile(entry)) for entry in packed.getmembers()}
    assert kept == {
        "results/runs/all_frameworks/a/run.json": {"host": {"hostname": "recorded1"}, "address": "192.0.2.1:80"},
        "results/jobs/run/all_frameworks/a/20260101T000000-recorded1-12.json": {
            "hostname": "recorded1",
            "attempt": "./results/attempts",
            "reason": "recorded1.site and gpu77",
        },
    }
