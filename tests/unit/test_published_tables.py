"""Published numbers are as their sources print them, and what follows from them is computed."""

import csv
import re

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from figured import GRIDS, make_tables
from howmanygpus.plan.config.errors import ConfigError
from howmanygpus.plan.frameworks import FRAMEWORKS
from howmanygpus.plan.networks import list_models
from howmanygpus.plan.study.published import (
    EPOCHS_BY_BATCH,
    check_published,
    choose_rows,
    describe_sources,
    find_columns,
    list_files,
    list_published,
)
from howmanygpus.report.accounting import bill
from howmanygpus.report.figures import describe_figure, load_figure
from howmanygpus.report.figures.price import describe_price, summarize_prices
from howmanygpus.report.metrics import list_metrics
from howmanygpus.report.published.panels import title_published
from howmanygpus.report.published.reading import (
    COLUMNS,
    PublishedError,
    parse_duration,
    read_columns,
    read_published,
)
from howmanygpus.report.tables.published import tabulate
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
        assert not row["year"] or 2010 < int(row["year"]) < 2030


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


def test_birds_cost_what_the_hours_of_their_machines_cost():
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
    assert set(table["source"]) == {"birds", "lambda", "nvidia", "timm", "mlperf"}, "airbench is of another network"
    assert EPOCHS_BY_BATCH in find_columns(config)
    assert EPOCHS_BY_BATCH not in find_columns(config | {"model": "densenet121"})


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


def test_the_planner_knows_the_tables_and_what_they_have():
    birds, chexnet = ({"model": "resnet50", "published": name} for name in ("birds", "chexnet"))
    assert find_columns(birds) >= {"price", "quality"} and "price" not in find_columns(chexnet)
    nothing = {"model": "resnet50", "published": None}
    assert find_columns(nothing) == set() and describe_sources(nothing) == list_files(None) == []
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
    assert find_columns(course) == set() and list_files(course["published"]) == []


def draw(tmp_path, name: str, study: tuple[str, str], grid: str = "complete"):
    """Draw a figure of published numbers beside the measured ones of a grid. study: table and model."""
    table, model = study
    tables = make_tables(*GRIDS[grid])
    paths = [FILES[table], FOLDER / "sources.tsv"]
    tables["published"] = tabulate({"study": "s", "config": {"model": model}}, paths)
    figure = load_figure(name).draw(**{each: tables[each] for each in describe_figure(name).tables})
    figure.savefig(tmp_path / "figure.svg")
    plt.close(figure)
    return figure


def titles(figure) -> list[str]:
    return [title for axes in figure.axes if (title := axes.get_title(loc="left"))]


def texts(figure) -> str:
    ticks = [tick.get_text() for axes in figure.axes for tick in axes.get_yticklabels()]
    notes = [axes.get_xlabel() for axes in figure.axes]
    return "\n".join([*ticks, *notes, *(text.get_text() for axes in figure.axes for text in axes.texts)])


def test_published_and_measured_numbers_never_share_a_panel(tmp_path):
    figure = draw(tmp_path, "published_throughput", ("chexnet", "densenet121"))
    published = [axes for axes in figure.axes if axes.get_title(loc="left").startswith("published 2018: Tesla V100")]
    measured = [axes for axes in figure.axes if axes.get_title(loc="left").startswith("measured 2026: EPYC")]
    assert len(published) == 4 and len(published) + len(measured) == len(figure.axes), "real and synthetic, twice"
    for panels, own, other in ((published, "Chainer 4.1", "a base"), (measured, "a base", "Chainer 4.1")):
        for axes in panels:
            names = [text.get_text() for text in axes.texts]
            assert own in names and other not in names
    rates = sorted(y for line in published[0].lines for y in line.get_ydata())
    assert round(rates[-1]) == 864 and round(rates[0]) == 192


def test_each_hardware_of_a_source_has_a_panel(tmp_path):
    found = titles(draw(tmp_path, "published_throughput", ("keras_feeding", "inception_v3"), "nothing run"))
    assert [title.split("\n")[0] for title in found[:2]] == [
        "published 2017: Tesla M60",
        "published 2017: GeForce GTX 1070, PCIe x1",
    ]
    assert all(title.startswith("published") for title in found)


def test_batches_of_one_number_of_devices_are_no_line(tmp_path):
    figure = draw(tmp_path, "published_throughput", ("birds", "resnet50"), "nothing run")
    names = [text.get_text() for text in figure.axes[0].texts]
    assert {f"TensorFlow MirroredStrategy, {size} images each" for size in (64, 128)} <= set(names)
    assert sorted(list(line.get_xdata()) for line in figure.axes[0].lines if line.get_marker() in "osD^v") == [
        [1, 4],
        [4],
    ]


def test_without_runs_the_published_numbers_stand_alone_and_say_so(tmp_path):
    for name, study in (
        ("published_throughput", ("chexnet", "densenet121")),
        ("published_quality", ("birds", "resnet50")),
    ):
        assert "nothing measured yet" in texts(draw(tmp_path, name, study, "nothing run"))
    assert "nothing measured that has a price" in texts(
        draw(tmp_path, "published_price", ("birds", "resnet50"), "nothing run")
    )


def test_prices_are_named_with_time_and_quality(tmp_path):
    words = texts(draw(tmp_path, "published_price", ("birds", "resnet50")))
    assert "7.46, 6,278 s, accuracy 0.801" in words and "TensorFlow MirroredStrategy, 4 x 128" in words
    assert "price of one run (USD)" in words and "price of one run (EUR), failed attempts included" in words
    assert "7, 6 s, accuracy 0.95, target at 5.6, 1.8 of it for failed attempts" in words


def test_a_price_names_a_target_that_was_not_reached():
    tables = make_tables(*GRIDS["largest never good"])
    prices = summarize_prices(tables["runs"], tables["time_to_accuracy"]).set_index(
        ["framework", "num_gpus", "variant"]
    )
    assert prices.loc[("a", 4, "base"), "cost_to_accuracy"] == float("inf")
    assert prices.loc[("a", 1, "base"), "cost_to_accuracy"] == pytest.approx(7 * (1 - 8 / 40))
    assert "target not reached" in describe_price(prices.loc[("a", 4, "base")])


@pytest.mark.parametrize(("year", "words"), [(2017.0, "published 2017: M60"), (float("nan"), "published (year not")])
def test_a_year_is_whole_although_others_of_its_column_are_missing(year, words):
    assert title_published("M60", year, "real images").startswith(words)


def test_a_threshold_that_was_never_reached_is_a_cross(tmp_path):
    figure = draw(tmp_path, "published_quality", ("dogs", "resnet44"))
    assert "never reached 0.8" in texts(figure) and "TensorFlow with Horovod, 12" in texts(figure)
    crosses = [line for axes in figure.axes for line in axes.lines if line.get_marker() == "x"]
    assert [list(line.get_xdata()) for line in crosses] == [[0], [0.8]], "in the panels of time and of quality"
    reached = draw(tmp_path, "published_quality", ("reference_points", "resnet44"))
    assert "reached 0.94" in texts(reached) and "2.6" in texts(reached)


def test_epochs_by_batch_are_drawn_beside_measured_ones(tmp_path):
    figure = draw(tmp_path, "published_epochs", ("reference_points", "resnet50"))
    published, *measured = figure.axes
    assert published.get_title(loc="left").startswith("published (year not stated): MLPerf Training")
    (line,) = [line for line in published.lines if len(line.get_xdata()) == 4]
    assert list(line.get_xdata()) == [3264, 8192, 32768, 65536] and list(line.get_ydata()) == [35.2, 42, 56, 84.5]
    heads = [axes.get_title(loc="left") for axes in measured]
    assert len(heads) == 3 and all(head.startswith("measured 2026: EPYC") for head in heads)
    assert "to test accuracy 0.9 on 1 device" in heads[0]
    alone = draw(tmp_path, "published_epochs", ("reference_points", "resnet50"), "nothing run")
    assert len(alone.axes) == 1 and "nothing measured yet" in texts(alone)


def test_the_precision_that_a_source_states_stands_on_its_panel(tmp_path):
    figure = draw(tmp_path, "published_throughput", ("reference_points", "densenet121"))
    assert "mixed precision, images not stated" in titles(figure)[0]
    assert [title for title in titles(figure) if "RTX 3090" in title] == [titles(figure)[0]], "one GPU has no speed-up"


def test_the_measured_time_to_a_published_threshold_has_panels_of_its_own(tmp_path):
    def draw_threshold(threshold: float, grid: str = "complete"):
        tables = make_tables(*GRIDS[grid])
        published = tabulate({"study": "s", "config": {"model": "resnet44"}}, [FILES["dogs"], FOLDER / "sources.tsv"])
        tables["published"] = published.assign(threshold=published["threshold"].where(lambda t: t.isna(), threshold))
        return load_figure("published_quality").draw(
            **{each: tables[each] for each in describe_figure("published_quality").tables}
        )

    def own(figure):
        return [axes for axes in figure.axes if "training to test accuracy" in axes.get_title(loc="left")]

    (panel,) = own(draw_threshold(0.9))
    assert panel.get_title(loc="left") == "measured 2026: EPYC\ntraining to test accuracy 0.9"
    assert "b base, 4 x 8" in [tick.get_text() for tick in panel.get_yticklabels()]
    words = [text.get_text() for text in own(draw_threshold(0.9, "largest never good"))[0].texts]
    assert words.count("0.9 in 0 of 2 repeats") == 3
    assert own(draw_threshold(0.42)) == [], "the study has no such threshold"
    plt.close("all")
