"""The report opens in a browser without errors or network requests, and has the expected content."""

import pytest

from helpers.browser import needs_chromium, open_page
from howmanygpus.report.categories import CATEGORIES, number_category
from howmanygpus.report.figures import list_figures
from project import ROOT, RUNS, study

ADVICE = "cdn.tailwindcss.com should not be used in production"
"""Advice to Snakemake's developers that a script in every report prints. It is no request to the network."""


@pytest.fixture
def project(project, prepared):
    project.take_prepared(prepared)
    return project


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
    for text in ("small", "The same work in every framework", sentence):
        assert text in content
    assert [line for line in console if ADVICE not in line] == []
    assert requests == []
    assert '"results/all_runs.html"' in content, "a report that was sent by mail has the page of all runs in itself"
    page = content[content.index('id="app"') :]
    order = ["8 runs planned: 6 completed, 2 crashed", "<h2>", 'src="data:image/svg+xml;base64,', 'class="recommended"']
    order += ["<summary>", "Data: digits", "The same work in every framework"]
    places = [page.index(text) for text in [*order, 'id="rulegraph"']]
    menu = [page.index(number_category(name)) for name in CATEGORIES if name != "Batch size"]
    assert menu == sorted(menu), "the categories are all there, in the order of a reader's questions"
    assert number_category("Batch size") not in page, "a study with one batch size says nothing about it"
    assert '"results/pages/all/scaling.html"' in content, "a table is a page in the report"
    assert '"results/pages/all/class_auc.html"' not in content, "a table without rows has no page"
    assert "with the recommended point" in page, "the figure of the first page says in words what it shows"
    assert places == sorted(places), "the first page opens with the answer, its figure and its table"


@needs_chromium
def test_an_error_and_a_request_would_be_noticed(tmp_path):
    page = tmp_path / "page.html"
    page.write_text('<img src="http://127.0.0.1:9/x.png"><script>nothing.here()</script>')
    _, console, requests = open_page(page, tmp_path)
    assert console and requests == ["http://127.0.0.1:9/x.png"]


def test_every_figure_has_a_caption():
    captions = {path.stem for path in (ROOT / "workflow" / "report" / "captions").glob("*.rst")}
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
CATEGORY = "More"
TABLES = ("rates",)


def draw(rates):
    figure, axes = plt.subplots()
    axes.barh(rates["framework"], rates["images_per_s"])
    return figure
''',
    "report/captions/ranking.rst": "Median rate of each framework of study {{ snakemake.wildcards.study }}.",
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
