"""Published numbers are as their sources print them, and what follows from them is computed."""

import csv
import re

import pandas as pd
import pytest

from howmanygpus.config.errors import ConfigError
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.report.accounting import bill
from howmanygpus.report.published import COLUMNS, PublishedError, parse_duration, read_columns, read_published
from howmanygpus.report.tables.published import tabulate
from howmanygpus.study.config.metrics import list_metrics
from howmanygpus.study.networks import list_models
from howmanygpus.study.published import (
    EPOCHS_BY_BATCH,
    check_published,
    choose_rows,
    describe_sources,
    list_files,
    list_published,
    list_published_columns,
)
from project import ROOT

FOLDER = ROOT / "workflow" / "published"
FILES = {name: FOLDER / f"{name}.tsv" for name in list_published()}


def read(name: str) -> pd.DataFrame:
    return read_published(FILES[name], FOLDER / "sources.tsv")


def choose(table: pd.DataFrame, **values) -> pd.Series:
    """The one row with these values."""
    (row,) = table.loc[(table[list(values)] == pd.Series(values)).all(axis=1)].to_dict("records")
    return row


@pytest.mark.parametrize("name", FILES)
def test_each_table_has_the_form_of_all(name):
    raw, table = read_columns(FILES[name], COLUMNS), read(name)
    assert len(table) == len(raw) > 0
    assert set(raw["framework"].dropna()) <= set(FRAMEWORKS) and set(raw["model"].dropna()) <= set(list_models())
    assert set(raw["input"].dropna()) <= {"real", "synthetic"} and set(raw["precision"].dropna()) <= {"fp32", "mixed"}
    assert set(raw["quality_metric"].dropna()) <= set(list_metrics())
    assert raw["series"].notna().all() and not raw.duplicated().any()
    assert (raw["hardware"].notna() == raw["num_gpus"].notna()).all(), "a number of GPUs without their type"
    assert raw[["duration", "images_per_s", "threshold", "epochs"]].notna().any(axis=1).all(), "a row without a result"
    assert raw.loc[raw["price"].notna(), ["currency", "duration"]].notna().all(axis=None)
    assert raw.loc[raw[["quality", "threshold"]].notna().any(axis=1), "quality_metric"].notna().all()
    assert raw[["quality", "threshold"]].stack().dropna().between(0, 1).all()
    for duration in raw["duration"].dropna():
        assert re.fullmatch(r"\d+:[0-5]\d|\d+(\.\d+)?", duration), duration


def test_each_source_is_used_and_has_title_authors_address_and_protocol():
    used = {source for name in FILES for source in read_columns(FILES[name], COLUMNS)["source"]}
    with (FOLDER / "sources.tsv").open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert {row["source"] for row in rows} == {*used, "input_pipeline"} and len(rows) == len(used) + 1
    for row in rows:
        assert all(row[key] for key in ("title", "authors", "protocol"))
        assert row["url"].startswith("https://") or row["source"] not in used
        assert re.fullmatch(r"20[12]\d( or later)?", row["year"]), "each panel names a year"


RATES = {
    "PyTorch 0.4 DataParallel": (271, 749, 288, 861),
    "PyTorch 0.4 DataParallel, loss on every GPU": (None, 769, None, 831),
    "Keras 2.1.4 multi_gpu_model": (192, 408, 203, 471),
    "TensorFlow 1.8 Estimator": (217, 328, 286, 523),
    "Chainer 4.1": (252, 864, 266, 985),
    "MXNet Gluon 1.3": (254, 749, 262, 863),
}
"""Images/s on 1 and 4 GPUs with real and with synthetic images, computed by hand from minutes and images."""


@pytest.mark.parametrize("series", RATES)
def test_rates_follow_from_images_and_minutes(series):
    table = read("chexnet")
    cells = [(source, count) for source in ("real", "synthetic") for count in (1, 4)]
    assert set(table["series"]) == RATES.keys()
    for (source, count), expected in zip(cells, RATES[series], strict=True):
        if expected is not None:
            row = choose(table, series=series, input=source, num_gpus=count)
            assert round(row["images_per_s"]) == expected and row["is_computed"]


def test_the_price_of_the_birds_study_follows_from_machine_hours():
    """The source prints seconds and prices; its machines are billed as a whole, like an exclusive node."""
    table = read("birds")
    assert table["images_per_s"].round().tolist() == [326, 1005, 1107]
    assert table["price_per_hour"].round(2).tolist() == [4.28, 17.12, 17.11]
    assert table["price_per_hour"][1:].mean() == pytest.approx(4 * table["price_per_hour"][0], rel=1e-3)
    hourly = {1: 4.28, 4: 17.11}
    for row in table.to_dict("records"):
        node = {"devices_per_node": 4, "billed": "node", "price_per_hour": hourly[row["num_gpus"]], "currency": "USD"}
        billed = bill(row["duration_s"] / 3600, row["num_gpus"], 1, node)
        assert (round(billed["cost"], 2), billed["currency"]) == (row["price"], "USD")


def test_speedup_is_over_the_one_device_of_the_same_series_and_hardware():
    table = read("keras_feeding")
    keras = choose(table, series="Keras", model="inception_v3", hardware="Tesla M60", num_gpus=4)
    assert keras["speedup"] == pytest.approx(75.5 / 29.4) and not keras["is_computed"]
    assert keras["scaling_efficiency"] == pytest.approx(75.5 / 29.4 / 4)
    other = choose(table, series="Keras", model="inception_v3", hardware="GeForce GTX 1070, PCIe x1", num_gpus=4)
    assert other["speedup"] == pytest.approx(64.1 / 41)
    alone = choose(read("chexnet"), series=list(RATES)[1], input="real", num_gpus=4)
    assert pd.isna(alone["speedup"]), "without a run on one GPU there is no speed-up"


def test_the_first_and_the_record_training_of_resnet50_have_the_rates_of_14_days_and_15_minutes():
    points = read("reference_points")
    one, record = choose(points, hardware="M40", num_gpus=1), choose(points, hardware="Tesla P100", num_gpus=1024)
    assert one["duration_s"] == 14 * 24 * 3600 and one["images_per_s"] == pytest.approx(95.3, abs=0.1)
    assert record["duration_s"] == 900 and record["images_per_s"] == pytest.approx(128_117, abs=1)


def test_a_threshold_has_a_time_or_was_never_reached():
    dogs, points = read("dogs"), read("reference_points")
    never = dogs[dogs["threshold"].notna()].iloc[0]
    assert never["reached"] == False and pd.isna(never["duration_s"])  # noqa: E712
    fast = points[points["threshold"].notna()].iloc[0]
    assert fast["reached"] == True and fast["duration_s"] == 2.6 and pd.isna(fast["images_per_s"])  # noqa: E712
    assert dogs.loc[dogs["threshold"].isna(), "reached"].isna().all()


@pytest.mark.parametrize(("text", "seconds"), [("26:50", 1610.0), ("6278", 6278.0), ("2.6", 2.6)])
def test_durations_are_read_as_printed(text, seconds):
    assert parse_duration(text) == seconds


def test_a_study_gets_the_numbers_of_its_own_model():
    plan = {"study": "mine", "config": {"model": "resnet50"}}
    published = [FILES["keras_feeding"], FOLDER / "sources.tsv"]
    assert set(tabulate(plan, published)["model"]) == {"resnet50"}
    assert len(tabulate({"study": "mine", "config": {"model": "small_cnn"}}, published)) == len(read("keras_feeding"))


@pytest.mark.parametrize("model", [*list_models(), "own"])
@pytest.mark.parametrize("names", [*([name] for name in FILES), ["birds", "reference_points"]])
def test_the_planner_and_the_table_choose_the_same_numbers(names, model):
    config = {"published": names, "model": model}
    planned = choose_rows(config)
    made = tabulate({"study": "s", "config": config}, [*(FILES[name] for name in names), FOLDER / "sources.tsv"])
    keys = ["source", "series", "model", "hardware"]
    assert [[row[key] for key in keys] for row in planned] == made[keys].fillna("").values.tolist()
    assert {row["source"] for row in describe_sources(config)} == set(made["source"])


def test_a_study_stands_beside_several_tables_with_the_numbers_of_its_network():
    config = {"model": "resnet50", "published": ["birds", "reference_points"]}
    paths = [FILES["birds"], FILES["reference_points"], FOLDER / "sources.tsv"]
    table = tabulate({"study": "s", "config": config}, paths)
    assert set(table["source"]) == {"birds", "lambda", "nvidia", "timm", "mlperf", "minutes", "record"}, (
        "airbench is of another network"
    )
    assert EPOCHS_BY_BATCH in list_published_columns(config)
    assert EPOCHS_BY_BATCH not in list_published_columns(config | {"model": "densenet121"})


def test_a_wrong_table_is_named(tmp_path):
    text, sources = FILES["birds"].read_text(), FOLDER / "sources.tsv"
    changes = {
        "no such source": (text.replace("birds\t", "cats\t", 1), "source 'cats' is not in"),
        "no number": (text.replace("7.46", "cheap"), "price has a value that is no number; correct it"),
        "other columns": (text.replace("price", "cost", 1), "the columns are source, series"),
    }
    for name, (changed, message) in changes.items():
        path = tmp_path / f"{name}.tsv"
        path.write_text(changed)
        with pytest.raises(PublishedError, match=message) as caught:
            read_published(path, sources)
        assert str(path) in str(caught.value)


def test_the_planner_knows_the_columns_of_the_tables():
    birds, chexnet = ({"model": "resnet50", "published": name} for name in ("birds", "chexnet"))
    assert list_published_columns(birds) >= {"price", "quality"} and "price" not in list_published_columns(chexnet)
    nothing = {"model": "resnet50", "published": None}
    assert list_published_columns(nothing) == set() and describe_sources(nothing) == list_files(None) == []
    dogs = {"model": "resnet44", "published": "dogs"}
    assert [row["source"] for row in describe_sources(dogs)] == ["dogs", "keras_feeding"]
    with pytest.raises(ConfigError, match=r'studies.a.published: "bird" is no table of workflow/published/, .*birds'):
        check_published("studies.a", "bird")
    with pytest.raises(ConfigError, match=r'studies.a.published\[1\]: "bird" is no table of workflow/published/'):
        check_published("studies.a", ["birds", "bird"])


def test_a_source_without_numbers_is_named_and_has_no_table():
    course = {"model": "alexnet", "published": "input_pipeline"}
    check_published("studies.a", "input_pipeline")
    assert [row["authors"] for row in describe_sources(course)] == ["NVIDIA Deep Learning Institute"]
    assert list_published_columns(course) == set() and list_files(course["published"]) == []
