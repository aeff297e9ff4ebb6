"""The page of the parity gate has a row for each variant, layout and framework."""

from gate.observing import CELL
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
