"""Published and measured numbers are drawn beside each other, and never in one panel."""

import matplotlib.pyplot as plt
import pytest

from helpers.figure_tables import GRIDS, make_tables
from howmanygpus.report.figures import describe_figure, list_figures, load_figure
from howmanygpus.report.figures.helpers.published import describe_batch, title_published
from howmanygpus.report.figures.price import describe_price, summarize_prices
from howmanygpus.report.style import FRAMEWORKS, GREY, darken
from howmanygpus.report.tables.published import tabulate
from howmanygpus.study.published import list_published, list_published_columns, read_rows
from project import ROOT

FOLDER = ROOT / "workflow" / "published"
FILES = {name: FOLDER / f"{name}.tsv" for name in list_published()}


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
    assert "7.46, 6,278 s, accuracy 0.8014" in words and "TensorFlow MirroredStrategy, 4 x 128" in words
    assert "price of one run (USD)" in words and "price of one run (EUR), failed attempts included" in words
    assert "7, 6 s, accuracy 0.95, target at 5.6, 1.8 of it for failed attempts" in words


@pytest.mark.parametrize("name", ["price", "published_price"])
def test_prices_below_a_cent_are_those_of_1000_runs(tmp_path, name):
    def be_cheap(table):
        if "cost" in table:
            table["cost"] = table["cost"] / 2000

    tables = make_tables(*GRIDS["complete"], be_cheap)
    tables["published"] = tabulate(
        {"study": "s", "config": {"model": "resnet50"}}, [FILES["birds"], FOLDER / "sources.tsv"]
    )
    figure = load_figure(name).draw(**{table: tables[table] for table in describe_figure(name).tables})
    plt.close(figure)
    words = texts(figure)
    assert "price of 1,000 runs (EUR), failed attempts included" in words
    assert "3.5, 6 s, accuracy 0.95, target at 2.8, 0.88 of it for failed attempts" in words
    assert max(patch.get_width() for patch in figure.axes[-1].patches) == pytest.approx(5.0)


def test_a_price_names_a_target_that_was_not_reached():
    tables = make_tables(*GRIDS["largest never good"])
    prices = summarize_prices(tables["runs"], tables["time_to_accuracy"]).set_index(
        ["framework", "num_gpus", "variant"]
    )
    assert prices.loc[("a", 4, "base"), "cost_to_accuracy"] == float("inf")
    assert prices.loc[("a", 1, "base"), "cost_to_accuracy"] == pytest.approx(7 * (1 - 8 / 40))
    assert "target not reached" in describe_price(prices.loc[("a", 4, "base")])


@pytest.mark.parametrize(
    ("year", "words"),
    [
        (2017.0, "published 2017: M60"),
        ("2020 or later", "published 2020 or later: M60"),
        (float("nan"), "published (year not"),
    ],
)
def test_years_are_integers_in_a_column_with_missing_values(year, words):
    assert title_published("M60", year, "real images").startswith(words)


@pytest.mark.parametrize(
    ("num_gpus", "size", "words"), [(4, 256, "4 x 64"), (4.0, 256.0, "4 x 64"), (4.0, float("nan"), "4")]
)
def test_device_counts_are_integers_in_a_column_with_missing_values(num_gpus, size, words):
    assert describe_batch(num_gpus, size) == words


def test_a_threshold_that_was_never_reached_is_a_cross(tmp_path):
    figure = draw(tmp_path, "published_quality", ("dogs", "resnet44"))
    assert "never reached 0.8" in texts(figure) and "TensorFlow with Horovod, 12" in texts(figure)
    crosses = [line for axes in figure.axes for line in axes.lines if line.get_marker() == "x"]
    assert [list(line.get_xdata()) for line in crosses] == [[0], [0.8]], "in the panels of time and of quality"
    reached = draw(tmp_path, "published_quality", ("reference_points", "resnet44"))
    assert "reached 0.94" in texts(reached) and "2.6" in texts(reached)
    assert "another network" in titles(reached)[0] and "another network" not in titles(figure)[0]


def test_published_quality_is_as_the_source_prints_it(tmp_path):
    words = texts(draw(tmp_path, "published_quality", ("chexnet", "densenet121"), "nothing run"))
    assert all(auc in words for auc in ("0.8156", "0.8079", "0.5511")), "their differences are in the fourth digit"


@pytest.mark.parametrize("name", ["published_throughput", "published_epochs"])
def test_a_series_without_a_framework_has_the_colour_of_none(tmp_path, name):
    figure = draw(tmp_path, name, ("reference_points", "resnet50"), "nothing run")
    colours = {text.get_text(): text.get_color() for axes in figure.axes for text in axes.texts}
    for series in ("Lambda", "NVIDIA DeepLearningExamples", "MLPerf reference points"):
        assert colours.get(series, GREY) not in {darken(colour) for colour, _ in FRAMEWORKS.values()}, series
    of_pytorch = darken(FRAMEWORKS["pytorch_ddp"][0])
    assert colours.get("timm", of_pytorch) == of_pytorch


def test_epochs_by_batch_are_drawn_beside_measured_ones(tmp_path):
    figure = draw(tmp_path, "published_epochs", ("reference_points", "resnet50"))
    published, *measured = figure.axes
    assert published.get_title(loc="left").startswith("published 2018 or later: MLPerf Training")
    (line,) = [line for line in published.lines if len(line.get_xdata()) == 4]
    assert list(line.get_xdata()) == [3264, 8192, 32768, 65536] and list(line.get_ydata()) == [35.2, 42, 56, 84.5]
    heads = [axes.get_title(loc="left") for axes in measured]
    assert len(heads) == 3 and all(head.startswith("measured 2026: EPYC") for head in heads)
    assert "to test accuracy 0.9 (majority class: 0.07) on 1 device" in heads[0]
    alone = draw(tmp_path, "published_epochs", ("reference_points", "resnet50"), "nothing run")
    assert len(alone.axes) == 1 and "nothing measured yet" in texts(alone)


STUDIES = [(name, model) for name in FILES for model in sorted({row["model"] for row in read_rows(name)})]


@pytest.mark.parametrize("grid", ["complete", "nothing run"])
@pytest.mark.parametrize(("name", "model"), STUDIES)
def test_all_figures_planned_for_a_table_and_a_network_show_its_numbers(tmp_path, name, model, grid):
    columns = list_published_columns({"model": model, "published": name})
    planned = [figure for figure in list_figures() if columns.intersection(describe_figure(figure).needs_published)]
    for figure in planned:
        drawn = titles(draw(tmp_path, figure, (name, model), grid))
        assert any(title.startswith("published") for title in drawn), figure
    assert planned


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
