"""Every table and figure is made from the recorded runs, which name no host and no place of the machine."""

import contextlib
import gzip
import json
import os
import re
import tarfile
from graphlib import TopologicalSorter
from pathlib import Path
from types import SimpleNamespace

import matplotlib.pyplot as plt
import pandas as pd
import pytest
import yaml

import recorded_runs
from helpers.constructed_traces import list_marks, repeat, write_chrome, write_steps, write_xspace
from howmanygpus.invocation.rules.products import ProductRules
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.report.answer.details import describe
from howmanygpus.report.answer.facts import Question, decide
from howmanygpus.report.answer.texts import HEIGHT, WIDTH, render_screen
from howmanygpus.report.figures import describe_figure, list_figures, load_figure
from howmanygpus.report.files import read_table, read_texts, write_table
from howmanygpus.report.pages import all_runs
from howmanygpus.report.published import drop_unfair
from howmanygpus.report.rows import merge_tables
from howmanygpus.report.style import save_svg
from howmanygpus.report.tables import describe_table, how_each_framework_ran, list_tables, load_table
from howmanygpus.report.timelines import PHASE_SERIES, SERIES
from howmanygpus.report.traces.reading import read_window
from howmanygpus.report.traces.xspace import read_fields
from howmanygpus.site.jobs.ledger import complete_and_list_jobs
from howmanygpus.site.machine import read_machine
from howmanygpus.study.plan import Plan
from howmanygpus.study.published import list_files

SIZE_BYTES = 2_000_000
EMPTY_HERE = {"class_auc", "prediction_checks", "predictions"}
"""Tables without rows for images with one label each, and for studies without `predict`."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Return a folder with the recorded runs of each set, by the set's name."""
    folders = {name: tmp_path_factory.mktemp(name) for name in recorded_runs.SETS}
    for name, source in recorded_runs.SETS.items():
        recorded_runs.unpack(folders[name], source)
    return folders


@pytest.fixture(scope="module")
def recorded(folders):
    """Make all tables of the recorded studies, and return them with the names of the figures, by set and study."""
    return {name: make_set(folders[name], source) for name, source in recorded_runs.SETS.items()}


def make_set(folder, source):
    with contextlib.chdir(folder):
        config, machine = (source / name for name in (recorded_runs.CONFIG, recorded_runs.MACHINE))
        plan = Plan(yaml.safe_load(config.read_text()), read_machine(machine))
    products = ProductRules(plan, lambda: True)
    products.root = folder
    ledger = {str(path): record for path, record in complete_and_list_jobs(folder / "results" / "jobs", folder).items()}
    made = {}
    for name, study in plan.studies.items():
        paths = list(map(Path, products.list_study_products(name)))
        wildcards = SimpleNamespace(study=name)
        allreduces, searches = (
            {Path(path).stem: json.loads((folder / path).read_text()) for path in found(wildcards)}
            for found in (products.allreduces, products.searches)
        )
        inputs = {"ledger": ledger, "allreduces": list(allreduces.values()), "searches": searches}
        tables = make_tables(folder, study, [path.stem for path in paths if path.suffix == ".tsv"], inputs)
        made[name] = (tables, [path.stem for path in paths if path.suffix == ".svg"])
    return made


def make_tables(folder, study, names, inputs):
    """Make the tables of a study in the order of what they are made from; they are written and read."""
    needs = {name: describe_table(name).inputs for name in names}
    published = [Path(path) for path in list_files(study.config["published"])]
    inputs = inputs | {"results": folder, "published": published, "decision": None}
    made = {}
    for name in TopologicalSorter(needs).static_order():
        given = {each: made[each] if each in made else inputs[each] for each in load_table(name).READS}
        path = folder / "tables" / study.name / f"{name}.tsv"
        path.parent.mkdir(parents=True, exist_ok=True)
        table = load_table(name).tabulate(study.describe(), **given)
        write_table(path, table)
        made[name] = read_table(path)
        made[name].attrs["texts"] = [column for column in table if holds_texts(table[column])]
    return made


DETAILS = ("runs", "scaling", "datasets", "jobs", "batch_sizes", "protocols", "explanations")
"""Tables from which the details of an answer are made."""


def test_every_recorded_answer_has_one_screen_that_says_where_the_rest_is(recorded):
    for (_, study), (tables, _) in list_studies(recorded).items():
        times = tables["time_to_accuracy"]
        facts = decide(tables["runs"], times, Question(), tables["explanations"])
        facts["details"] = describe(**{name: tables[name] for name in DETAILS})
        lines = render_screen(facts).splitlines()
        assert len(lines) <= HEIGHT and max(map(len, lines)) <= WIDTH, study
        assert f"The rest is in results/tables/{study}/answer.txt: " in "\n".join(lines)


def holds_texts(values):
    return values.notna().any() and values.dropna().map(lambda value: isinstance(value, str)).all()


def list_studies(recorded):
    """Return tables and names of figures of all studies, by set and study."""
    return {(name, study): made for name, studies in recorded.items() for study, made in studies.items()}


def test_every_table_has_rows_of_recorded_runs(recorded):
    filled = {name for tables, _ in list_studies(recorded).values() for name, table in tables.items() if len(table)}
    assert set(list_tables()) - filled == EMPTY_HERE


def test_a_column_of_texts_stays_one_if_they_look_like_numbers(recorded, tmp_path):
    """Lists of numbers, and columns that are numbers in another table, are read as what they look like."""
    tables = [(name, table) for made, _ in list_studies(recorded).values() for name, table in made.items()]
    texts = {(name, column) for name, table in tables for column in table.attrs["texts"]}
    numbers = {column for _, table in tables for column in table.select_dtypes("number") if table[column].notna().any()}
    lists = {*SERIES, *PHASE_SERIES, *how_each_framework_ran.COLUMNS}
    for name, column in sorted(texts):
        if column not in numbers | lists - {"framework", "variant", "device"}:
            write_table(tmp_path / f"{name}.tsv", pd.DataFrame({column: ["440.100", "5e12340"]}))
            assert read_table(tmp_path / f"{name}.tsv")[column].tolist() == ["440.100", "5e12340"], (name, column)


def test_every_recorded_run_is_completed_but_for_one_that_lacked_memory(recorded):
    failed = []
    for (_, name), (tables, _) in list_studies(recorded).items():
        statuses = tables["runs"]["status"].value_counts()
        failed += [(name, status) for status in statuses.index if status not in ("completed", "unsupported")]
        assert statuses["completed"] >= 3, name
    assert failed == [("largest_batch", "host_out_of_memory")]


@pytest.mark.parametrize("name", list_figures())
def test_every_figure_is_drawn_from_recorded_runs(recorded, tmp_path, name):
    """Of at least one study: a figure without anything to show has no axes."""
    drawn = []
    for tables, figures in list_studies(recorded).values():
        if name not in figures:
            continue
        read = {table: tables[table] for table in describe_figure(name).tables}
        figure = load_figure(name).draw(**(read if describe_figure(name).shows_unfair else drop_unfair(read)))
        save_svg(figure, tmp_path / "figure.svg")
        plt.close(figure)
        drawn.append(bool(figure.axes))
    assert any(drawn)


def test_the_page_of_all_runs_has_less_than_two_kilobytes_for_each_run(folders, recorded):
    name = recorded_runs.ONE_MACHINE.name
    folder, studies = folders[name], recorded[name]
    parts, merged = [folder / "tables" / name / "runs.tsv" for name in studies], folder / "runs.tsv"
    merge_tables(parts, merged)
    timelines = [tables["timelines"] for tables, _ in studies.values()]
    facts = all_runs.collect(read_texts(merged).to_dict("records"), read_table(merged), timelines, folder)
    page, empty = (all_runs.render(facts | changes, {}) for changes in ({}, {"rows": [], "details": []}))
    assert len(facts["details"]) == len(read_table(merged)) > 70
    done = [run for run in facts["details"] if run["values"]["status"] == "completed"]
    assert all("record" in run and "timeline" in run for run in done)
    assert len(page) - len(empty) < 2000 * len(facts["details"])


def read_archives():
    """Return the contents of both archives by set and name. Traces are decompressed."""
    contents = {}
    for source in recorded_runs.SETS.values():
        with tarfile.open(source / recorded_runs.ARCHIVE) as packed:
            for entry in packed.getmembers():
                content = packed.extractfile(entry).read()
                is_compressed = entry.name.endswith(".gz")
                contents[f"{source.name}/{entry.name}"] = gzip.decompress(content) if is_compressed else content
    return contents


def test_the_archives_are_small_and_have_every_framework():
    assert sum((source / recorded_runs.ARCHIVE).stat().st_size for source in recorded_runs.SETS.values()) < SIZE_BYTES
    runs = [json.loads(text) for name, text in read_archives().items() if name.endswith("/run.json")]
    assert {run["spec"]["framework"] for run in runs} == set(FRAMEWORKS)


def test_the_archives_name_no_host_and_no_place():
    """Other planes of a trace than those of devices name paths and, like the trace's own fields, the host."""
    contents = read_archives()
    assert {".json.gz", ".pb.gz"} <= {"".join(Path(name).suffixes[-2:]) for name in contents}
    for name, content in contents.items():
        if not name.endswith((".npz", ".npy")):
            text = name + content.decode(errors="replace")
            assert not re.search(r"/(root|home|tmp|Users)\b", text), name
            assert set(recorded_runs.ADDRESS.findall(text)) <= {"192.0.2.1"}, name
        if name.endswith((".json", ".json.gz")):
            record = json.loads(content)
            assert "environment" not in record
            assert all(host.startswith("recorded") for host in recorded_runs.find_hosts(record)), name
        if name.endswith(".pb.gz"):
            assert {field for field, _ in read_fields(content)} == {recorded_runs.PLANE}, name


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
        recorded_runs.keep(results, recorded_runs.ONE_MACHINE, archive)
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


@pytest.mark.parametrize("form", ["chrome", "xspace"])
def test_a_kept_trace_shows_the_same_and_names_neither_host_nor_folder(tmp_path, form):
    results = tmp_path / "clone" / "results"
    folder = results / "runs" / "all_frameworks" / "a" / "trace"
    steps = write_steps(folder, num_steps=4)
    work = repeat([("worker", "conv", 0.04, 0.09)], 4)
    if form == "chrome":
        file = write_chrome(folder, steps, {"cpu_op": work})
        content = json.loads(gzip.decompress((folder / file).read_bytes()))
        content |= {"host_name": "gpu7", "traceName": f"{tmp_path}/clone/results/trace.json"}
        (folder / file).write_bytes(gzip.compress(json.dumps(content).encode()))
    else:
        planes = {"/host:CPU": [*list_marks(steps), *work], "/host:metadata": [("gpu7", f"{tmp_path}/clone", 0.0, 1.0)]}
        file = write_xspace(folder, planes, xla=("conv",))
    (folder.parent / "run.json").write_text(json.dumps({"host": {"hostname": "gpu7"}}))
    archive = tmp_path / "archive"
    recorded_runs.keep(results, recorded_runs.ONE_MACHINE, archive)
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "kept", filter="data")
    kept = tmp_path / "kept" / folder.relative_to(results.parent)
    before, after = (read_window(each, file, "cpu") for each in (folder, kept))
    assert before.busy_frac == after.busy_frac > 0 and before.gaps_s == after.gaps_s
    content = gzip.decompress((kept / file).read_bytes())
    assert b"conv" in content and b"gpu7" not in content and str(tmp_path).encode() not in content
