"""The parity gate passes every backend, network, loss and variant on one device and on several."""

import pytest

from gate.accumulation import HALVES, WHOLE, compare_steps, find_excess
from gate.cells import (
    DALI,
    DEEP,
    LOSSES,
    NETWORKS_ON,
    ON_ONE,
    ON_TWO,
    SMALL,
    cells_on,
    count_devices,
    find_variants,
    list_networks,
    supports,
)
from gate.faults import FAMILIES
from gate.observing import CELL, names_of
from howmanygpus.config.schema import study_defaults
from howmanygpus.gate.judge import judge
from howmanygpus.gate.page import render_page, tabulate
from howmanygpus.gate.task import OPTIMIZERS
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.study.gate_cells import describe_settings, select_settings
from measure.launching import BY_MPI


@pytest.mark.parametrize("framework", list(FRAMEWORKS))
def test_every_backend_passes_on_one_device(framework, judge_cell):
    verdict = judge_cell(framework, cells_on(1, framework), "small", 1)
    assert (verdict["status"], verdict["reason"]) == ("passed", "")
    checks = {row["check"] for row in verdict["checks"]}
    assert {f"updates_{name}" for name in OPTIMIZERS} <= checks and not {"exchange", "replicas", "united"} & checks


@pytest.mark.parametrize("framework", [name for name in FRAMEWORKS if supports(name, ON_ONE["small_bf16"])])
def test_bf16_is_within_its_noise(framework, judge_cell):
    verdict = judge_cell(framework, cells_on(1, framework), "small_bf16", 1)
    assert (verdict["status"], verdict["reason"]) == ("passed", "")
    direction = next(row for row in verdict["checks"] if row["check"] == "direction")
    assert direction["value"] > 1e-6, "the framework computed in float32"


@pytest.mark.parametrize("framework", [name for name in FRAMEWORKS if supports(name, ON_ONE["small_fp16"])])
def test_fp16_is_within_its_noise_and_skips_the_step_that_overflows(framework, judge_cell):
    """On two devices gradients overflow on the second only, and each device accumulates three batches."""
    for num_devices, key in ((1, "small_fp16"), (count_devices(framework), "deep_fp16")):
        verdict = judge_cell(framework, cells_on(2 if key == "deep_fp16" else 1, framework), key, num_devices)
        assert (verdict["status"], verdict["reason"]) == ("passed", "")
        assert "skipped" in {row["check"] for row in verdict["checks"]}
        direction = next(row for row in verdict["checks"] if row["check"] == "direction")
        assert direction["value"] > 1e-9, "the framework computed in float32"


@pytest.mark.parametrize("framework", list(FRAMEWORKS))
def test_every_backend_passes_on_two_devices(framework, judge_cell):
    num_devices = count_devices(framework)
    verdict = judge_cell(framework, cells_on(2, framework), "deep", num_devices)
    assert (verdict["status"], verdict["reason"]) == ("passed", "")
    assert {row["devices"] for row in verdict["checks"]} == {num_devices}
    checks = {row["check"] for row in verdict["checks"]}
    assert {f"updates_{name}" for name in OPTIMIZERS} <= checks
    assert {"exchange", "replicas", "united"} & checks == (
        {"exchange", "replicas", "united"} if num_devices > 1 else set()
    )
    page = render_page(tabulate([{"task": "a_task", "framework": framework, **CELL, **DEEP, **verdict}]))
    assert framework in page and "averaging" in page


@pytest.mark.parametrize("framework", list(FRAMEWORKS))
def test_an_accumulated_step_on_two_devices_matches_the_reference(framework, judge_cell):
    """BatchNorm uses each batch's own statistics, and its running statistics follow one batch after the other."""
    num_devices = count_devices(framework)
    verdict = judge_cell(framework, cells_on(2, framework), "deep_accumulated", num_devices)
    assert (verdict["status"], verdict["reason"]) == ("passed", "")


@pytest.mark.parametrize("protocol", ["deep_first", "small_frozen", "small_every_loss"])
@pytest.mark.parametrize("framework", list(FRAMEWORKS))
def test_unfair_protocols_do_what_they_say_and_nothing_else(framework, protocol, judge_cell):
    """The reference evaluates with the first device's statistics, or has the same batches in every epoch."""
    verdict = judge_cell(framework, cells_on(2, framework), protocol, count_devices(framework))
    assert (verdict["status"], verdict["reason"]) == ("passed", "")
    if protocol == "deep_first":
        assert verdict["running_statistics"] == "first device"


@pytest.mark.parametrize("framework", list(FRAMEWORKS))
def test_accumulated_batches_update_weights_like_one_of_their_images(framework, observe_cells):
    """The framework is compared with itself, without the reference."""
    num_devices = count_devices(framework)
    seen = observe_cells(framework, cells_on(2, framework), num_devices)
    for optimizer in OPTIMIZERS:
        differences = compare_steps(seen / WHOLE, seen / HALVES, optimizer)
        assert not find_excess(differences), (optimizer, differences)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("framework", list(FRAMEWORKS))
def test_every_backend_has_the_losses_of_the_reference(framework, loss, judge_cell):
    """The devices have different numbers of known labels, and so do accumulated batches."""
    verdict = judge_cell(framework, cells_on(2, framework), loss, count_devices(framework))
    assert (verdict["status"], verdict["reason"]) == ("passed", "")


@pytest.mark.parametrize(
    ("family", "num_devices", "network"),
    [(family, n, name) for family in FAMILIES for n in NETWORKS_ON for name in list_networks(family, n)],
)
def test_every_network_passes_in_every_family(family, network, num_devices, judge_cell):
    framework = FAMILIES[family].strategy
    verdict = judge_cell(framework, cells_on(num_devices, framework), network, num_devices)
    assert (verdict["status"], verdict["reason"]) == ("passed", "")


@pytest.mark.parametrize("family", FAMILIES)
def test_one_backend_of_each_family_passes_on_three_devices(family, judge_cell):
    """Without batch sizes and counts that are powers of two; they share the cores if there are only two."""
    verdict = judge_cell(FAMILIES[family].strategy, {"deep": DEEP}, "deep", 3)
    assert (verdict["status"], verdict["reason"]) == ("passed", "")
    assert {row["devices"] for row in verdict["checks"]} == {3}


@pytest.mark.parametrize("framework", [name for name in FRAMEWORKS if supports(name, ON_TWO["deep_synchronized"])])
def test_synchronized_batchnorm_uses_the_global_batchs_statistics(framework, judge_cell):
    verdict = judge_cell(framework, cells_on(2, framework), "deep_synchronized", 2)
    assert (verdict["status"], verdict["reason"]) == ("passed", "")


def test_dali_passes_in_its_environment(gate):
    settings = select_settings("pytorch_ddp", "png", study_defaults() | DALI)
    cell = SMALL | describe_settings(settings) | BY_MPI
    folder = gate.observe(names_of("pytorch_ddp"), "pytorch-dali-cpu", {"dali": cell}, 2)
    verdict = judge({(2, 1): folder / "dali"}, gate.task(cell))
    assert (verdict["status"], verdict["reason"]) == ("passed", "")


@pytest.mark.parametrize(
    ("framework", "variant"), [(framework, name) for framework in FRAMEWORKS for name in find_variants(framework)]
)
def test_variants_that_train_otherwise_pass_within_their_own_limits(framework, variant, judge_cell):
    verdict = judge_cell(framework, find_variants(framework), variant, count_devices(framework))
    assert (verdict["status"], verdict["reason"]) == ("passed", "")
