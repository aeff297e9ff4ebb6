"""One clock decides, larger numbers of devices win beyond a dip, and nodes are told apart."""

import pytest

from helpers.decisions import answer, answer_all, around, find, get_doubts, priced, repeat


def test_a_larger_number_wins_beyond_a_dip():
    curve = [repeat(around(1000 / rate, 0.001), num_gpus=n) for n, rate in ((1, 100), (2, 149), (4, 298), (8, 590))]
    assert answer(*curve)[0]["recommended"]["num_gpus"] == 8
    assert answer(*curve[:2])[0]["recommended"]["num_gpus"] == 1


def test_the_time_that_is_paid_decides_where_there_is_a_price():
    """Training on 8 devices saves 9 s of 69, which start-up makes most of."""
    groups = [repeat(around(s, 0.001), num_gpus=n, wall_s=59.0 + s, wall_time_s=59.0 + s) for n, s in ((1, 10), (8, 1))]
    free, _ = answer(*groups)
    assert free["recommended"]["num_gpus"] == 8 and free["clock"] == "duration_s"
    assert free["other_clock"]["num_gpus"] == 1
    for rows in groups:
        for row in rows:
            row |= {"cost": row["wall_s"] * row["num_gpus"], "currency": "EUR"}
            row["device_hours"] = row["wall_s"] * row["num_gpus"] / 3600
    paid, text = answer(*groups)
    assert paid["recommended"]["num_gpus"] == 1 and paid["clock"] == "wall_s"
    assert paid["other_clock"]["num_gpus"] == 8 and "By training alone" in text
    assert find(paid, "fastest")["times_faster"]["median"] == pytest.approx(69 / 60, rel=0.01)
    assert paid["why"]["kind"] == "more_start"


def test_node_counts_have_rows_and_names_of_their_own():
    one, two = ({"num_nodes": nodes, "placement": place} for nodes, place in ((1, "1 node"), (2, "2 nodes")))
    decision, text = answer(repeat(around(20), num_gpus=4, **one), repeat(around(30), num_gpus=4, **two))
    assert [each["num_nodes"] for each in decision["counts"]] == [1, 2] and "4 x cpu on 1 node" in text


def test_device_hours_count_all_devices_of_a_billed_node():
    billed = [{"device_hours": 1.0 * n, "billed_device_hours": 4.0} for n in (1, 4)]
    decision, _ = answer(repeat(around(100), **billed[0]), repeat(around(50), num_gpus=4, **billed[1]))
    assert [one["device_seconds"] for one in decision["counts"]] == [400, 200]
    assert decision["recommended"]["num_gpus"] == 4, "it is faster and takes fewer device-hours, although not 2.25 x"


def test_one_price_of_two_models_is_doubted():
    groups = [priced(repeat(around(100), name, device_model=name.upper())) for name in ("a", "b")]
    assert all("one_price" in get_doubts(decision) for decision in answer_all(*groups)[0])
    assert "one_price" not in get_doubts(answer(groups[0])[0])
