"""A study stands beside published numbers in the workflow, and only its tables and figures follow from them."""

import shutil

import pytest

from project import Project, study

ALONE = {"frameworks": ["sleeping"], "num_gpus": [1]}
FIGURES = ("published_price", "published_quality", "published_throughput")


@pytest.fixture
def project(tmp_path) -> Project:
    project = Project(tmp_path / "project", fakes=("sleeping",))
    project.leave_figures_blank()
    return project


def test_a_study_stands_beside_published_numbers_without_another_run(project):
    project.write_config(small=study(**ALONE))
    project.snakemake()
    assert not (project.folder / "results/tables/small/published.tsv").exists(), "by default it stands beside nothing"

    project.write_config(small=study(**ALONE, published="birds", deviations=["Other_images are taken."]))
    planned = project.planned()
    assert {"draw_figures small", "tabulate_published small"} <= set(planned)
    assert not [job for job in planned if "/" in job]
    project.snakemake()
    drawn = project.folder / "results/figures/small"
    assert all((drawn / f"{figure}.svg").exists() for figure in FIGURES)
    rows = project.read("results/tables/small/published.tsv").splitlines()
    assert len(rows) == 1 + 3 and "Saturn Cloud" in rows[1] and "\t7.46\t" in rows[1]

    numbers = project.folder / "workflow/published/birds.tsv"
    numbers.write_text(numbers.read_text().replace("7.46", "7.50"))
    assert project.planned() == sorted(["all", "draw_figures small", "tabulate_published small"])

    project.write_config(small=study(**ALONE, published="keras_feeding", deviations=["Other_images are taken."]))
    shutil.rmtree(drawn)
    project.snakemake()
    made = [figure for figure in FIGURES if (drawn / f"{figure}.svg").exists()]
    assert made == ["published_throughput"], "it has neither prices nor quality"


def test_the_report_names_source_and_deviations_and_has_a_price_if_the_machine_file_has_one(project):
    machine = project.folder / "profiles/local/machine.yaml"
    machine.write_text("devices: {cpu: {cores_per_device: 1, price_per_hour: 3600.0}}")
    project.write_config(small=study(**ALONE, published="birds", deviations=["Other_images are taken."]))
    project.snakemake()
    header, *rows = project.read("results/tables/small/time_to_accuracy.tsv").splitlines()
    reached = [dict(zip(header.split("\t"), row.split("\t"), strict=True)) for row in rows]
    assert [row["reached"] for row in reached] == ["True", "False"]
    assert float(reached[0]["cost_to_accuracy"]) > 0 and reached[0]["currency"] == "EUR"
    assert reached[1]["cost_to_accuracy"] == ""
    assert (project.folder / "results/figures/small/price.svg").exists()
    printed = project.snakemake("available", "--report", "results/report.html")
    assert "WARNING" not in printed, "a caption or the first page is not valid reStructuredText"
    report = project.read("results/report.html")
    assert "ResNet-50 on birds with MirroredStrategy" in report and "Other_images are taken." in report
