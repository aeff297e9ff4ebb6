"""The page of the parity gate has a row for each variant, layout and framework."""

from html import escape

from gate.observing import CELL
from howmanygpus.gate.coverage import ASPECTS
from howmanygpus.gate.judge import CHECKS
from howmanygpus.gate.page import render_page, tabulate

CHECK = {"devices": 1, "nodes": 1, "check": "weights", "value": 0.0, "tolerance": 1e-7, "passed": True, "detail": ""}
VERDICT = {"status": "passed", "reason": "", "checks": [CHECK], "running_statistics": "mean of all devices"}


def test_variants_of_a_framework_are_rows_of_their_own():
    cells = [
        {},
        {"tier": "best"},
        {"loader": "torch.loader", "loader_kind": "processes", "input": "png"},
        {"gradient_compression": "powersgd", "powersgd_rank": 2},
        {"horovod_controller": "mpi"},
        {"more": {"new_key": 3}},
    ]
    named = {"task": "a_task", "framework": "one", "model": "small_cnn"}
    page = render_page(tabulate([named | CELL | changes | VERDICT for changes in cells]))
    rows = page.split("<tr><td>one")[1:]
    assert sorted(row.partition("<small>")[0] for row in rows) == [
        "",
        ", best",
        ", controller MPI",
        ", gradients by powersgd of rank 2",
        ", new_key: 3",
        ", torch.loader with processes on png",
    ]


def test_a_page_without_checks_states_that_none_was_done():
    named = {"task": "a_task", "framework": "one", "model": "small_cnn"} | CELL
    unchecked = {"status": "not_checked", "reason": "parity: off", "checks": []}
    assert "Nobody checked it here" in render_page(tabulate([named | unchecked]))
    assert "Nobody checked" not in render_page(tabulate([named | unchecked, named | VERDICT]))


def test_layouts_and_settings_that_were_not_looked_at_are_named_beside_the_verdict():
    named = {"task": "a_task", "framework": "one", "model": "small_cnn"} | CELL | VERDICT
    planned = {"layouts": [(1, 1), (8, 1), (8, 2)], "settings": [("trace", "true", "after the last step")]}
    table = tabulate([named | {"planned": planned}])
    (gaps,) = table["not_observed"]
    page = render_page(table).partition("Not observed")[2]
    for gap in ("8 devices: ", "8 devices of 2 nodes: ", "trace = true: after the last step", "noise", "skipped"):
        assert gap in gaps and gap in page
    assert "1 device: " not in gaps and "8 devices: " not in tabulate([named])["not_observed"][0]


def test_arrays_that_only_the_whole_has_judged_are_counted_beside_the_verdict():
    named = {"task": "a_task", "framework": "one", "model": "small_cnn"} | CELL | VERDICT
    table = tabulate([named | {"unjudged": {"gradients": "3 of 9 arrays"}}])
    assert "gradients: 3 of 9 arrays" in table["not_observed"][0]


def test_what_no_verdict_looks_at_is_on_the_page_and_every_other_aspect_names_its_checks():
    page = render_page(tabulate([{"task": "a_task", "framework": "one", "model": "small_cnn"} | CELL | VERDICT]))
    assert all((escape(one.name) in page.partition("no verdict")[2]) == (not one.checks) for one in ASPECTS)
    assert {check for one in ASPECTS for check in one.checks} <= set(CHECKS)
