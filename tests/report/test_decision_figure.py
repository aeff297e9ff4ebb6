"""The figure of the decision shows what the answer says, from the table of what was chosen from."""

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from helpers.answers import make_runs
from howmanygpus.report.answer.facts import Question, decide
from howmanygpus.report.figures.decision import draw
from howmanygpus.report.files import read_table, write_table
from howmanygpus.report.tables.decision import tabulate
from howmanygpus.report.tables.losses import COLUMNS as LOSSES
from howmanygpus.report.tables.time_to_accuracy import compute_time_to_accuracy

NO_LOSSES = pd.DataFrame(columns=list(LOSSES))
DEAR = {"cost": 9.0}
ASKED = {"variants": {}, "worth_doubling": 1.5, "deadline_h": None, "budget": None, "quality": {"margin": 0.01}}
SECONDS = {1: 100.0, 2: 55.0, 4: 45.0}
"""The second doubling gains less than 1.5."""


def repeat(seconds, framework="pytorch_ddp", num_gpus=1, **changes):
    rows = []
    for factor in (0.98, 1.0, 1.02):
        train_s = factor * seconds
        wall_s = train_s + 1.0
        row = {"framework": framework, "num_gpus": num_gpus, "train_s": train_s, "images_per_s": 1000 / train_s}
        price = {"cost": 0.01 * train_s * num_gpus, "currency": "EUR", "device_hours": wall_s * num_gpus / 3600}
        rows.append(row | {"wall_s": wall_s, "wall_time_s": wall_s, "run_dir": "r"} | price | changes)
    return rows


def curve(framework="pytorch_ddp", factor=1.0, **changes):
    return [row for count, s in SECONDS.items() for row in repeat(factor * s, framework, num_gpus=count, **changes)]


def decide_on(rows, folder, thresholds=(0.9,), **asked):
    """Return the table as figures read it, and the facts of the only decision."""
    runs, evaluations = make_runs(*rows)
    config = ASKED | asked
    times = compute_time_to_accuracy(runs, evaluations, {"metric": "accuracy", "thresholds": list(thresholds)})
    write_table(folder / "decision.tsv", tabulate({"config": config}, runs, times, NO_LOSSES))
    (decision,) = decide(runs, times, Question.of(config))["decisions"]
    return read_table(folder / "decision.tsv"), decision


def draw_closed(table):
    figure = draw(table)
    figure.canvas.draw()
    plt.close(figure)
    return figure


def find_rings(axes):
    return [line for line in axes.lines if line.get_markerfacecolor() == "none" and line.get_color() == "black"]


def test_the_table_has_each_series_on_each_count_with_the_roles_of_the_answer(tmp_path):
    table, decision = decide_on([*curve(), *curve("keras_mirrored", 1.3)], tmp_path)
    assert table[["series", "num_gpus"]].drop_duplicates().shape[0] == len(table) == 6
    chosen = table[table["roles"] == "recommended"].iloc[0]
    best = decision["recommended"]
    assert (chosen["framework"], chosen["num_gpus"]) == (best["framework"], best["num_gpus"]) == ("pytorch_ddp", 2)
    assert chosen["duration_s"] == best["duration_s"]["median"] and chosen["cost"] == best["cost"]["median"]
    roles = set(table["roles"].dropna()) - {"recommended"}
    assert roles == {", ".join(other["roles"]) for other in decision["alternatives"]}


def test_the_recommended_point_is_ringed_in_both_panels_and_letters_name_the_alternatives(tmp_path):
    table, decision = decide_on([*curve(), *curve("keras_mirrored", 1.3)], tmp_path)
    times, prices = draw_closed(table).axes
    for axes, value in ((times, 56.0), (prices, 1.1)):
        (ring,) = find_rings(axes)
        assert ring.get_xdata()[0] == 2 and ring.get_ydata()[0] == pytest.approx(value)
        letters = [text.get_text() for text in axes.texts if len(text.get_text()) == 1]
        assert len(letters) == len(decision["alternatives"])
    assert times.get_title(loc="left").startswith("Use 2 x cpu, pytorch_ddp, 8 images per device\naccuracy 0.9")
    assert all(f"{letter}  " in times.get_xlabel() for letter in letters)
    assert "EUR" in prices.get_ylabel() and "1.1 EUR" in prices.get_title(loc="left")


@pytest.mark.parametrize("asked", [{"budget": 5.0}, {"deadline_h": 5.0}, {}])
def test_a_recommendation_that_is_not_the_fastest_of_its_series_is_in_table_and_figure(tmp_path, asked):
    """The larger batch is as fast, a bit faster by the median, and dearer."""
    rows = [*repeat(40.0, **DEAR, per_device_batch_size=64), *repeat(41.0)]
    table, decision = decide_on(rows, tmp_path, **asked)
    assert decision["recommended"]["per_device_batch_size"] == 8
    assert dict(table[["per_device_batch_size", "roles"]].itertuples(index=False))[8] == "recommended"
    assert len(table) == 2 and table["duration_s"].is_monotonic_increasing
    times, _ = draw_closed(table).axes
    (ring,) = find_rings(times)
    assert ring.get_ydata()[0] == pytest.approx(42.0)
    assert all(len(set(line.get_xdata())) == len(line.get_xdata()) for line in times.lines), "a line has no step"
    assert times.get_title(loc="left").startswith("Use 1 x cpu, pytorch_ddp, 8 images per device")


def test_the_headline_says_what_the_recommendation_gains_or_why_not_more(tmp_path):
    table, _ = decide_on(curve(), tmp_path)
    gain, price = (101 / 56, 1.1)
    headline = " ".join(draw_closed(table).get_suptitle().split())
    assert headline == f"2 devices instead of 1 device: {gain:.3g} x as fast, at {price:.3g} x the price"
    table, _ = decide_on([*repeat(100.0), *repeat(90.0, num_gpus=2)], tmp_path)
    headline = " ".join(draw_closed(table).get_suptitle().split())
    assert headline == f"No more than 1 device: 2 are {101 / 91:.3g} x as fast, at 1.8 x the price"
    spread = repeat(88.0, num_gpus=2, num_nodes=2, placement="2 nodes")
    table, decision = decide_on([*repeat(100.0), *repeat(91.0, num_gpus=2), *spread], tmp_path)
    (doubled,) = (each for each in decision["alternatives"] if "next doubling" in each["roles"])
    assert f"2 are {doubled['times_faster']['median']:.3g} x" in " ".join(draw_closed(table).get_suptitle().split())
    assert table.loc[table["num_gpus"] == 2, "wall_s"].min() < doubled["wall_s"]["median"], "one is faster"
    table, _ = decide_on(curve(disturbed=True), tmp_path)
    assert draw_closed(table).get_suptitle() == "", "the title of the panel has the refusal"


def test_points_are_named_by_their_nodes_where_these_vary(tmp_path):
    spread = {"num_nodes": 2, "placement": "2 nodes"}
    rows = [*repeat(100.0), *repeat(50.0, num_gpus=2), *repeat(60.0, "keras_mirrored", num_gpus=2, **spread)]
    axes = draw_closed(decide_on(rows, tmp_path)[0]).axes[0]
    assert sorted(text.get_text() for text in axes.texts if "node" in text.get_text()) == ["1 node", "2 nodes"]
    axes = draw_closed(decide_on(curve(), tmp_path)[0]).axes[0]
    assert not any("node" in text.get_text() for text in axes.texts)


def test_a_line_says_that_it_has_the_fastest_of_several_numbers_of_nodes(tmp_path):
    spread = {"num_nodes": 2, "placement": "2 nodes"}
    rows = [*repeat(100.0), *repeat(50.0, num_gpus=2)]
    for more in ([], repeat(60.0, num_gpus=2, **spread)):
        note = draw_closed(decide_on([*rows, *more], tmp_path)[0]).axes[0].get_xlabel()
        assert ("numbers of nodes" in note) == bool(more)


@pytest.mark.parametrize(("seconds", "repeats", "is_tie"), [(260.0, 1, False), (101.0, 1, False), (101.0, 3, True)])
def test_figure_and_text_call_the_same_configurations_tied(tmp_path, seconds, repeats, is_tie):
    """Only some repeats of an alternative, or of all, are undisturbed."""
    rows = [*repeat(100.0)[:repeats], *repeat(seconds, "keras_mirrored")[:repeats]]
    table, decision = decide_on(rows, tmp_path)
    (other,) = decision["alternatives"]
    assert other["is_tied"] == is_tie == any("tied" in roles for roles in table["roles"])
    assert bool(decision["ties"]) == is_tie


def test_prices_below_a_cent_are_those_of_1000_runs(tmp_path):
    rows = [row | {"cost": row["cost"] / 1000} for row in curve()]
    prices = draw_closed(decide_on(rows, tmp_path)[0]).axes[1]
    assert prices.get_title(loc="left").startswith("What 1,000 runs cost: 1.1 EUR")
    assert prices.get_ylabel() == "price of 1,000 runs\nuntil accuracy 0.9 (EUR)"
    (ring,) = find_rings(prices)
    assert ring.get_ydata()[0] == pytest.approx(1.1)


def test_the_dotted_line_is_what_a_doubling_must_gain(tmp_path):
    table, _ = decide_on(curve(), tmp_path)
    axes = draw_closed(table).axes[0]
    (dotted,) = [line for line in axes.lines if line.get_linestyle() == ":"]
    places, values = dotted.get_xdata(), dotted.get_ydata()
    assert (places[0], places[-1]) == (2, 4) and values[0] / values[-1] == pytest.approx(1.5)
    assert "1.5 x per doubling" in axes.get_xlabel()


def test_without_a_target_rates_are_shown_and_without_a_price_no_panel_of_prices(tmp_path):
    table, _ = decide_on(curve(cost=None, currency=None), tmp_path, thresholds=())
    (axes,) = draw_closed(table).axes
    assert axes.get_ylabel() == "images/s over all devices"
    (ring,) = find_rings(axes)
    assert ring.get_ydata()[0] == pytest.approx(1000 / 55, rel=0.01)


def test_many_series_have_a_line_for_each_family_and_the_others_in_grey(tmp_path):
    names = ["pytorch_ddp", "pytorch_dp", "horovod_pytorch", "keras_mirrored", "tensorflow_mirrored", "jax_sharding"]
    table, _ = decide_on([row for i, name in enumerate(names) for row in curve(name, 1 + 0.1 * i)], tmp_path)
    axes = draw_closed(table).axes[0]
    written = {text.get_text() for text in axes.texts}
    assert {"pytorch_ddp", "keras_mirrored", "jax_sharding"} <= written
    assert not {"pytorch_dp", "horovod_pytorch", "tensorflow_mirrored"} & written
    assert len([line for line in axes.lines if line.get_alpha() == 0.35]) == len(names)


def test_without_a_recommendation_what_was_measured_is_shown_and_the_answer_says_why(tmp_path):
    table, decision = decide_on(curve(disturbed=True), tmp_path)
    axes = draw_closed(table).axes[0]
    title = axes.get_title(loc="left")
    assert title.startswith("No recommendation") and decision["refusal"] not in " ".join(title.split())
    assert find_rings(axes) == []


def test_without_any_configuration_the_figure_says_why(tmp_path):
    table, decision = decide_on(repeat(100, status="crashed"), tmp_path)
    figure = draw_closed(table)
    assert not figure.axes and decision["refusal"] in " ".join(figure.texts[0].get_text().split())
    assert isinstance(table, pd.DataFrame) and table["roles"].isna().all()


def test_prices_of_rates_are_those_of_as_much_work(tmp_path):
    """Each device of a study with `steps` trains as many images: whole runs on more devices cost more."""
    rows = [
        row | {"images_per_s": 10.0 * count, "cost": 1.0 * count, "images_seen": 1000 * count}
        for count in (1, 2, 4)
        for row in repeat(100.0, num_gpus=count)
    ]
    table, decision = decide_on(rows, tmp_path, thresholds=())
    assert table["cost"].isna().all()
    per_million = [one["cost_per_million"]["median"] for one in decision["counts"]]
    assert table["cost_per_million"].tolist() == pytest.approx(per_million)
    _, prices = draw_closed(table).axes
    assert "per million images" in prices.get_ylabel() and "per million images" in prices.get_title("left")
    assert prices.get_ylim()[1] > max(per_million)
