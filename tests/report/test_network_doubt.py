"""A slow network is a doubt in the answer, with the place that is recommended first."""

import pandas as pd

from helpers.answers import find_doubt, make_facts
from howmanygpus.report.tables.explanations import COLUMNS


def explain(*places, num_nodes=1):
    rows = [{"device": "cpu", "num_gpus": count, "num_nodes": num_nodes, "network": text} for count, text in places]
    return pd.DataFrame(rows, columns=COLUMNS)


ROWS = [{"framework": "pytorch_ddp", "num_gpus": count, "images_per_s": 100.0 * count**0.8} for count in (1, 2, 4)]


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


def test_the_facts_have_the_transport_of_each_place():
    table = explain((2, None), (4, "four are slow.")).assign(transport=["NVLink", "TCP sockets"])
    (decision,) = make_facts(*ROWS, explanations=table.assign(network_frac=[None, 0.2]))["decisions"]
    found = {each["num_gpus"]: (each["transport"], each["finding"], each["lost_frac"]) for each in decision["networks"]}
    assert found == {2: ("NVLink", None, None), 4: ("TCP sockets", "four are slow.", 0.2)}
