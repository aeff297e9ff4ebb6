"""The parity gate passes every backend, and catches each planted fault by the check that names it."""

import re
import shutil

import pytest

from howmanygpus.plan.frameworks import FRAMEWORKS
from howmanygpus.report.parity.judge import judge
from howmanygpus.report.parity.page import render_page, tabulate
from howmanygpus.train.parity.task import OPTIMIZERS
from parity.cells import (
    DEEP,
    DROPPING,
    LOSSES,
    NETWORKS_ON,
    ON_ONE,
    ON_TWO,
    SIGMOID,
    SMALL,
    cells_on,
    count_devices,
    find_variants,
    list_networks,
    supports,
)
from parity.faults import (
    FAMILIES,
    FAULTS_OF_DROPOUT,
    FAULTS_OF_FP16,
    FAULTS_OF_LABELS,
    FAULTY_HOROVOD,
    IN_BF16,
    NONE,
    faults_of,
)
from parity.observing import CELL


@pytest.mark.parametrize("framework", list(FRAMEWORKS))
def test_every_backend_passes_on_one_device(framework, judge_cell):
    verdict = judge_cell(framework, cells_on(1, framework), "small", 1)
    assert (verdict["status"], verdict["reason"]) == ("passed", "")
    assert {f"updates_{name}" for name in OPTIMIZERS} <= {row["check"] for row in verdict["checks"]}


@pytest.mark.parametrize("framework", [name for name in FRAMEWORKS if supports(name, ON_ONE["small_bf16"])])
def test_bf16_is_within_its_noise(framework, judge_cell):
    verdict = judge_cell(framework, cells_on(1, framework), "small_bf16", 1)
    assert (verdict["status"], verdict["reason"]) == ("passed", "")
    direction = next(row for row in verdict["checks"] if row["check"] == "direction")
    assert direction["value"] > 1e-6, "the framework computed in float32"


@pytest.mark.parametrize("framework", [name for name in FRAMEWORKS if supports(name, ON_ONE["small_fp16"])])
def test_fp16_is_within_its_noise_and_skips_the_step_that_overflows(framework, judge_cell):
    """On two devices gradients overflow on the second only, and each device accumulates two batches."""
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
    assert {f"updates_{name}" for name in OPTIMIZERS} <= {row["check"] for row in verdict["checks"]}
    page = render_page(tabulate([{"task": "a_task", "framework": framework, **CELL, **DEEP, **verdict}]))
    assert framework in page and "averaging" in page


@pytest.mark.parametrize("framework", list(FRAMEWORKS))
def test_a_step_on_two_batches_of_each_device_is_that_of_the_reference(framework, judge_cell):
    """BatchNorm uses each batch's own statistics, and its running statistics follow one batch after the other."""
    num_devices = count_devices(framework)
    verdict = judge_cell(framework, cells_on(2, framework), "deep_accumulated", num_devices)
    assert (verdict["status"], verdict["reason"]) == ("passed", "")


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


@pytest.mark.parametrize(
    ("framework", "variant"), [(framework, name) for framework in FRAMEWORKS for name in find_variants(framework)]
)
def test_variants_that_train_otherwise_pass_within_their_own_limits(framework, variant, judge_cell):
    verdict = judge_cell(framework, find_variants(framework), variant, count_devices(framework))
    assert (verdict["status"], verdict["reason"]) == ("passed", "")


FAULTS_OF_HOROVOD = {"gradients_not_averaged": "averaging", "gradients_summed": "averaging", NONE: ""}
IN_HALVES = {precision: DEEP | {"precision": precision} for precision in ("bf16", "fp16")}
EVERYTHING = f"{NONE}:all:all"


def judge_fault(seen, fault, task, tmp_path, strict=None):
    """Judge what one start did with a fault. Tasks with the other optimizer are those without a fault."""
    folder = tmp_path / "seen"
    for source in (seen / NONE, seen / fault):
        shutil.copytree(source, folder, dirs_exist_ok=True)
    for specification in seen.glob("*.spec.json"):
        shutil.copy2(specification, folder)
    return judge({(2, 1): folder}, task, strict)


def failed_checks(verdict):
    return {row["check"] for row in verdict["checks"] if not row["passed"]}


@pytest.fixture(scope="session")
def see_faults(faulty_gate):
    """A function from a family to the folder of what one start did, with a folder for each cell and fault."""

    def get(family):
        planted = FAMILIES[family]
        names = {"framework": planted.strategy, "family": family, "strategy": "planted", "launcher": planted.launcher}
        faults = [f"{name}:{fault.optimizer}:fp32" for name, fault in faults_of(family).items()]
        faults += [f"{name}:{fault.optimizer}:sigmoid" for name, fault in FAULTS_OF_LABELS.items()]
        faults += [f"{name}:{fault.optimizer}:dropout" for name, fault in FAULTS_OF_DROPOUT.items()]
        cells = {"fp32": DEEP, "sigmoid": SIGMOID, "dropout": DROPPING}
        if planted.has_bf16:
            cells["bf16"] = IN_HALVES["bf16"]
            faults += [f"{name}:sgd:bf16" for name in IN_BF16]
        if planted.has_fp16:
            cells["fp16"] = IN_HALVES["fp16"]
            faults += [f"{name}:{fault.optimizer}:fp16" for name, fault in FAULTS_OF_FP16.items()]
        planted_faults = ",".join([*faults, EVERYTHING])
        return faulty_gate.observe(names, planted.environment, cells, 2, PLANTED_FAULTS=planted_faults)

    return get


PLANTED = [(family, fault) for family in FAMILIES for fault in faults_of(family)]
PLANTED_IN_BF16 = [(family, fault) for family in FAMILIES if FAMILIES[family].has_bf16 for fault in IN_BF16]


@pytest.mark.parametrize(("family", "fault"), PLANTED)
def test_each_fault_is_caught_by_the_check_that_names_it(family, fault, see_faults, faulty_gate, tmp_path):
    """One start of a family's strategy does the task with all faults, and with none."""
    verdict = judge_fault(see_faults(family) / "fp32", fault, faulty_gate.task(DEEP), tmp_path)
    assert verdict["status"] == "failed"
    assert faults_of(family)[fault].check in failed_checks(verdict)


@pytest.mark.parametrize("fault", FAULTS_OF_LABELS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_loss_that_ignores_which_labels_are_known_is_caught(family, fault, see_faults, faulty_gate, tmp_path):
    """Also one whose mean over two devices is not that over all known labels."""
    verdict = judge_fault(see_faults(family) / "sigmoid", fault, faulty_gate.task(SIGMOID), tmp_path)
    assert verdict["status"] == "failed"
    assert FAULTS_OF_LABELS[fault].check in failed_checks(verdict)


@pytest.mark.parametrize("fault", FAULTS_OF_DROPOUT)
@pytest.mark.parametrize("family", FAMILIES)
def test_units_that_are_dropped_otherwise_are_caught(family, fault, see_faults, faulty_gate, tmp_path):
    verdict = judge_fault(see_faults(family) / "dropout", fault, faulty_gate.task(DROPPING), tmp_path)
    assert verdict["status"] == "failed"
    assert FAULTS_OF_DROPOUT[fault].check in failed_checks(verdict)


@pytest.mark.parametrize(("family", "fault"), PLANTED_IN_BF16)
def test_each_fault_of_whole_gradients_is_caught_in_bf16(family, fault, see_faults, faulty_gate, tmp_path):
    verdict = judge_fault(see_faults(family) / "bf16", fault, faulty_gate.task(IN_HALVES["bf16"]), tmp_path)
    assert verdict["status"] == "failed"
    assert faults_of(family)[fault].check in failed_checks(verdict)


@pytest.mark.parametrize("fault", FAULTS_OF_FP16)
@pytest.mark.parametrize("family", [name for name, family in FAMILIES.items() if family.has_fp16])
def test_each_fault_of_loss_scaling_is_caught(family, fault, see_faults, faulty_gate, tmp_path):
    verdict = judge_fault(see_faults(family) / "fp16", fault, faulty_gate.task(IN_HALVES["fp16"]), tmp_path)
    assert verdict["status"] == "failed"
    assert FAULTS_OF_FP16[fault].check in failed_checks(verdict)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_passes_after_its_faults(family, see_faults, faulty_gate, tmp_path):
    """A fault that outlived its turn would be seen."""
    cells = {"fp32": DEEP, "sigmoid": SIGMOID, "dropout": DROPPING}
    has = {"bf16": FAMILIES[family].has_bf16, "fp16": FAMILIES[family].has_fp16}
    cells |= {precision: cell for precision, cell in IN_HALVES.items() if has[precision]}
    for name, cell in cells.items():
        verdict = judge_fault(see_faults(family) / name, NONE, faulty_gate.task(cell), tmp_path / name)
        assert (verdict["status"], verdict["reason"]) == ("passed", "")


@pytest.mark.parametrize("fault", FAULTS_OF_HOROVOD)
@pytest.mark.parametrize("backend", FAULTY_HOROVOD)
def test_horovod_that_does_not_average_is_caught(backend, fault, faulty_gate, tmp_path):
    family, environment = FAULTY_HOROVOD[backend]
    names = {"framework": backend, "family": family, "strategy": backend, "launcher": "horovodrun"}
    faults = ",".join([*(f"{name}:sgd:all" for name in FAULTS_OF_HOROVOD if name != NONE), EVERYTHING])
    seen = faulty_gate.observe(names, environment, {"small": SMALL}, 2, PLANTED_FAULTS=faults) / "small"
    verdict = judge_fault(seen, fault, faulty_gate.task(SMALL), tmp_path)
    assert verdict["reason"].partition(" ")[0] == FAULTS_OF_HOROVOD[fault]
    assert verdict["status"] == ("passed" if fault == NONE else "failed")


def test_reduced_precision_requires_the_verdict_in_fp32(see_faults, faulty_gate, tmp_path):
    """What bf16 cannot tell, the fp32 verdict on the same code does."""
    seen = see_faults("torch")
    strict = judge_fault(seen / "fp32", "one_layer_not_averaged", faulty_gate.task(DEEP), tmp_path / "fp32")
    verdict = judge_fault(seen / "bf16", NONE, faulty_gate.task(IN_HALVES["bf16"]), tmp_path / "bf16", strict)
    assert verdict["status"] == "failed"
    assert verdict["reason"] == f"the fp32 verdict on the same code is failed: {strict['reason']}"


def test_a_crash_fails_the_job_after_the_other_cells_were_observed(faulty_gate):
    """One model crashes at its first task; the one after it is observed all the same, and no verdict is given."""
    planted = FAMILIES["torch"]
    names = {"framework": "faulty", "family": "torch", "strategy": "planted", "launcher": planted.launcher}
    cells = {"first": {"model": "small_cnn", "precision": "no_such_precision"}, "second": {"model": "small_cnn"}}
    variables = {"PLANTED_FAULTS": EVERYTHING, "CRASH_AT": "no_such_precision"}
    with pytest.raises(AssertionError, match=re.escape("RuntimeError: told to crash")) as failure:
        faulty_gate.observe(names, planted.environment, cells, 1, **variables)
    printed = str(failure.value)
    assert "faulty, small_cnn, no_such_precision, sgd, on 1 devices crashed" in printed
    assert "faulty, small_cnn, fp32" not in printed
