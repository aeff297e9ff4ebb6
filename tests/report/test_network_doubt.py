"""A slow network is a doubt in the answer, with the place that is recommended first, and that of the baseline."""

import pandas as pd

from helpers.answers import find_doubt, make_facts
from helpers.messages import says
from howmanygpus.report.tables.allreduce import COLUMNS as ALLREDUCE
from howmanygpus.report.tables.explanations import COLUMNS


def explain(*places, num_nodes=1):
    rows = [{"device": "cpu", "num_gpus": count, "num_nodes": num_nodes, "network": text} for count, text in places]
    return pd.DataFrame(rows, columns=COLUMNS)


ROWS = [{"framework": "pytorch_ddp", "num_gpus": count, "images_per_s": 100.0 * count**0.8} for count in (1, 2, 4)]


WITHOUT_ONE = [
    {"framework": "pytorch_ddp", "num_gpus": count, "images_per_s": 100.0 * count**0.95, "train_s": 2 / count**0.95}
    for count in (2, 4, 8)
]


def test_the_network_of_the_recommended_place_is_a_doubt():
    table = explain((2, "two are slow."), (4, "four are slow."))
    facts = make_facts(*ROWS, explanations=table)
    count = facts["decisions"][0]["recommended"]["num_gpus"]
    names = {1: "four are slow.", 2: "two are slow.", 4: "four are slow."}
    assert find_doubt(facts, "network").startswith(names[count]) and "1 more" in find_doubt(facts, "network")


def test_a_network_that_was_not_found_slow_is_no_doubt():
    assert find_doubt(make_facts(*ROWS, explanations=explain((2, None))), "network") == ""
    assert find_doubt(make_facts(*ROWS), "network") == ""
    elsewhere = explain((4, "four on two nodes are slow."), num_nodes=2)
    assert find_doubt(make_facts(*ROWS, explanations=elsewhere), "network") == ""


def test_what_it_costs_is_that_of_the_recommended_framework():
    table = explain((4, "four cost b 30 %."), (4, "four cost pytorch_ddp 20 %."))
    table = table.assign(framework=["b", "pytorch_ddp"])
    (only,) = make_facts(*WITHOUT_ONE[1:2], explanations=table)["decisions"][0]["networks"]
    assert only["finding"] == "four cost pytorch_ddp 20 %."


def measure(*places, num_nodes=1):
    """Return the table of all-reduces of two sizes. places: numbers of devices, each with its finding."""
    return pd.DataFrame(
        [
            {"device": "cpu", "num_gpus": count, "num_nodes": num_nodes, "size_mib": size, "transport": "TCP sockets"}
            | {"finding": text}
            for count, text in places
            for size in (1, 128)
        ],
        columns=list(ALLREDUCE),
    )


def test_the_facts_have_the_transport_of_each_place():
    table = explain((4, "four are slow, by 20 %.")).assign(transport="TCP sockets", network_frac=0.2)
    facts = make_facts(*ROWS, explanations=table, allreduce=measure((2, None), (4, "four are slow.")))
    (decision,) = facts["decisions"]
    found = {each["num_gpus"]: (each["transport"], each["finding"], each["lost_frac"]) for each in decision["networks"]}
    assert found == {2: ("TCP sockets", None, None), 4: ("TCP sockets", "four are slow, by 20 %.", 0.2)}


def test_the_network_of_the_baseline_is_named_once_beside_that_of_the_recommended_place():
    slow = [(2, "two are slow."), (4, "four are slow."), (8, "eight are slow.")]
    facts = make_facts(*WITHOUT_ONE, allreduce=measure(*slow))
    text = find_doubt(facts, "network")
    assert facts["decisions"][0]["recommended"]["num_gpus"] == 8 and text.count("two are slow.") == 1
    assert says(text, "eight are slow. two are slow. Gains are over this place", "1 more place")


def test_the_network_of_the_baseline_alone_is_a_doubt():
    text = find_doubt(make_facts(*WITHOUT_ONE, allreduce=measure((2, "two are slow."), (4, None))), "network")
    assert says(text, "two are slow. Gains are over this place") and "more place" not in text


def test_a_recommended_place_that_is_the_baseline_is_no_place_of_gains():
    rows = [{"framework": "pytorch_ddp", "num_gpus": count, "images_per_s": 100.0} for count in (2, 4)]
    assert find_doubt(make_facts(*rows, allreduce=measure((2, "two are slow."))), "network") == "two are slow."


def test_the_only_place_has_its_doubt_though_no_curve_is_explained():
    only = {"framework": "pytorch_ddp", "num_gpus": 4, "images_per_s": 100.0}
    assert find_doubt(make_facts(only, allreduce=measure((4, "four are slow."))), "network") == "four are slow."
    alone = only | {"independent": True}
    assert find_doubt(make_facts(alone, allreduce=measure((4, "four are slow."))), "network") == ""
