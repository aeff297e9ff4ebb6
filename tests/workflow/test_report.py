"""The report opens in a browser without errors or network requests, and has the expected content."""

import json
import shutil
import subprocess

import pytest

from howmanygpus.report.figures import list_figures
from project import ROOT, RUNS, study

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ADVICE = "cdn.tailwindcss.com should not be used in production"
"""Advice to Snakemake's developers that a script in every report prints. It is no request to the network."""
QUIET = ("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync")


needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium to open the report")


@pytest.fixture
def project(project, prepared):
    project.take_prepared(prepared)
    return project


def open_page(page, scratch) -> tuple[str, list[str], list[str]]:
    """Return the page's content, its lines in the console, and the addresses that it requested.

    Requests of the browser itself are left out: their initiator is not a page.
    """
    net_log = scratch / "net.json"
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        *QUIET,
        "--enable-logging=stderr",
    ]
    command += [f"--user-data-dir={scratch / 'browser'}", f"--log-net-log={net_log}", "--virtual-time-budget=5000"]
    result = subprocess.run([*command, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=600)
    assert result.returncode == 0
    requests = [event.get("params", {}) for event in json.loads(net_log.read_text())["events"]]
    asked = [request["url"] for request in requests if request.get("initiator", "").startswith(("file", "null"))]
    remote = [url for url in asked if not url.startswith(("file:", "data:", "blob:"))]
    return result.stdout, [line for line in result.stderr.splitlines() if ":CONSOLE" in line], remote


@needs_chromium
def test_the_report_opens_without_errors_or_requests(project, tmp_path):
    project.write_config(small=study(inputs=["arrays", "synthetic"]))
    project.behave(dozing__base__gpus2="crash")
    project.snakemake(*RUNS, expect=1)
    printed = project.snakemake("available")
    command = ".venv/bin/snakemake available --profile profiles/local --report results/report.html"
    told = "The answer is in results/tables/answer.txt, and as Markdown beside it. This writes the report: "
    assert told + command in printed
    printed = project.snakemake("available", "--report", "results/report.html")
    assert "WARNING" not in printed, "a caption is not valid reStructuredText"
    content, console, requests = open_page(project.folder / "results" / "report.html", tmp_path)
    sentence = "Runs are measured repeat by repeat, each in random order, one at a time."
    for text in ("small", "Which framework", "The same work in every framework", sentence):
        assert text in content
    assert [line for line in console if ADVICE not in line] == []
    assert requests == []
    page = content[content.index('id="app"') :]
    order = ["8 runs planned: 6 completed, 2 crashed", "Data: digits", 'src="data:image/svg+xml;base64,']
    order += ["The same work in every framework"]
    places = [page.index(text) for text in [*order, 'id="rulegraph"']]
    assert places == sorted(places), "the first page opens with the answer, what was trained on and a figure"


@needs_chromium
def test_an_error_and_a_request_would_be_noticed(tmp_path):
    page = tmp_path / "page.html"
    page.write_text('<img src="http://127.0.0.1:9/x.png"><script>nothing.here()</script>')
    _, console, requests = open_page(page, tmp_path)
    assert console and requests == ["http://127.0.0.1:9/x.png"]


def test_every_figure_has_a_caption():
    captions = {path.stem for path in (ROOT / "workflow" / "report").glob("*.rst")}
    assert set(list_figures()) <= captions


TOYS = {
    "lib/howmanygpus/report/tables/rates.py": '''
"""Median rate of each framework."""

READS = ("runs",)
IS_MERGED = True
COLUMNS = ("framework", "images_per_s")


def tabulate(plan, runs):
    return runs.groupby("framework", as_index=False)["images_per_s"].median()
''',
    "lib/howmanygpus/report/figures/ranking.py": '''
"""Frameworks by their median rate."""

import matplotlib.pyplot as plt

TITLE = "Ranking of frameworks"
TABLES = ("rates",)


def draw(rates):
    figure, axes = plt.subplots()
    axes.barh(rates["framework"], rates["images_per_s"])
    return figure
''',
    "report/ranking.rst": "Median rate of each framework of study {{ snakemake.wildcards.study }}.",
}


def test_a_table_and_a_figure_with_its_caption_are_three_files_and_nothing_else(project):
    project.write_config(small=study(num_gpus=[1]))
    project.snakemake(*RUNS)
    before = project.planned()
    for path, text in TOYS.items():
        (project.folder / "workflow" / path).write_text(text)
    assert project.planned() == before
    project.snakemake("available", "--until", "draw_figures", "merge_tables")
    for path in (
        "tables/small/rates.tsv",
        "tables/rates.tsv",
        "figures/small/ranking.svg",
        "figures/small/ranking.png",
    ):
        assert (project.folder / "results" / path).exists(), path
    assert {line.split("\t")[0] for line in project.read("results/tables/rates.tsv").splitlines()[1:]} == {
        *("sleeping", "dozing")
    }
    assert "sleeping" in project.read("results/figures/small/ranking.svg")
