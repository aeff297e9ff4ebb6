"""The parity gate catches each planted fault, in every family, by the check that names it."""

import re

import pytest

from gate.accumulation import HALVES, WHOLE, compare_steps, find_excess
from gate.cells import DEEP, DROPPING, FORMS, LOSSES, SIGMOID, SMALL
from gate.faults import (
    EXCHANGED,
    FAMILIES,
    FAULTS,
    FAULTS_OF_ACCUMULATION,
    FAULTS_OF_COMPRESSION,
    FAULTS_OF_DROPOUT,
    FAULTS_OF_EXCHANGE,
    FAULTS_OF_FP16,
    FAULTS_OF_KVSTORE,
    FAULTS_OF_LABELS,
    FAULTS_OF_NUMBERS,
    FAULTS_OF_OPTIMIZERS,
    FAULTS_OF_PLAIN_SGD,
    FAULTY_HOROVOD,
    IGNORED_PRECISION,
    IN_BF16,
    NONE,
)
from gate.observing import judge_fault

FAULTS_OF_HOROVOD = {"gradients_not_averaged": "exchange", "gradients_summed": "averaging"}
FAULTS_OF_HOROVOD |= {EXCHANGED: "exchange", "fp16_not_compressed": "exchange", NONE: ""}
COMPRESSED = {
    "fp16": SMALL | {"gradient_compression": "fp16"},
    "powersgd": SMALL | {"gradient_compression": "powersgd", "powersgd_rank": 2},
}
COMPRESSED |= {f"{name}_bf16": cell | {"precision": "bf16"} for name, cell in COMPRESSED.items()}
"""The cells with compressed gradients."""
OPTIMIZERS = {
    "adamw": (DEEP | {"variation": FORMS["small_adamw"]["variation"]}, FAULTS_OF_OPTIMIZERS),
    "plain": (DEEP | {"variation": FORMS["small_plain"]["variation"]}, FAULTS_OF_PLAIN_SGD),
}
"""Cells with other optimizers, and the faults that are planted there."""
IN_HALVES = {precision: DEEP | {"precision": precision} for precision in ("bf16", "fp16")}
IN_FP32 = {"fp32": DEEP, WHOLE: SIGMOID, HALVES: LOSSES[HALVES], "dropout": DROPPING}
IN_FP32 |= {name: cell for name, (cell, _) in OPTIMIZERS.items()}
"""The cells that every family is observed at."""
EVERYTHING = f"{NONE}:all:all"


def failed_checks(verdict):
    return {row["check"] for row in verdict["checks"] if not row["passed"]}


@pytest.fixture(scope="session")
def see_faults(faulty_gate):
    """A function from a family to the folder of what one start did, with a folder for each cell and fault."""

    def get(family):
        planted = FAMILIES[family]
        names = {"framework": planted.strategy, "family": family, "strategy": "planted", "launcher": planted.launcher}
        faults = [f"{name}:{fault.optimizer}:fp32" for name, fault in FAULTS.items()]
        faults += [f"{name}:{fault.optimizer}:sigmoid" for name, fault in FAULTS_OF_LABELS.items()]
        faults += [f"{name}:{fault.optimizer}:dropout" for name, fault in FAULTS_OF_DROPOUT.items()]
        faults += [f"{name}:{fault.optimizer}:{HALVES}" for name, fault in FAULTS_OF_ACCUMULATION.items()]
        faults += [f"{fault}:own:{name}" for name, (_, planted_here) in OPTIMIZERS.items() for fault in planted_here]
        faults += [f"{name}:sgd:fp32" for name in FAULTS_OF_NUMBERS]
        faults += [f"{name}:sgd:fp32" for name in (EXCHANGED, *(FAULTS_OF_KVSTORE if family == "gluon" else []))]
        cells = dict(IN_FP32)
        if planted.has_bf16:
            cells["bf16"] = IN_HALVES["bf16"]
            faults += [
                f"{name}:sgd:bf16" for name in (*IN_BF16, *FAULTS_OF_NUMBERS, *IGNORED_PRECISION, *FAULTS_OF_EXCHANGE)
            ]
        if planted.has_fp16:
            cells["fp16"] = IN_HALVES["fp16"]
            faults += [f"{name}:{fault.optimizer}:fp16" for name, fault in FAULTS_OF_FP16.items()]
        planted_faults = ",".join([*faults, EVERYTHING])
        return faulty_gate.observe(names, planted.environment, cells, 2, PLANTED_FAULTS=planted_faults)

    return get


PLANTED = [(family, fault) for family in FAMILIES for fault in FAULTS]
PLANTED_IN_BF16 = [(family, fault) for family in FAMILIES if FAMILIES[family].has_bf16 for fault in IN_BF16]


@pytest.mark.parametrize(("family", "fault"), PLANTED)
def test_each_fault_is_caught_by_the_check_that_names_it(family, fault, see_faults, faulty_gate, tmp_path):
    """One start of a family's strategy does the task with all faults, and with none."""
    verdict = judge_fault(see_faults(family) / "fp32", fault, faulty_gate.task(DEEP), tmp_path)
    assert verdict["status"] == "failed"
    assert FAULTS[fault].check in failed_checks(verdict)


@pytest.mark.parametrize(
    ("cell", "fault"), [(cell, fault) for cell, (_, planted) in OPTIMIZERS.items() for fault in planted]
)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_gate_catches_optimizers_that_the_runs_do_not_use(family, cell, fault, see_faults, faulty_gate, tmp_path):
    described, planted = OPTIMIZERS[cell]
    verdict = judge_fault(see_faults(family) / cell, fault, faulty_gate.task(described), tmp_path)
    assert verdict["status"] == "failed"
    assert failed_checks(verdict) <= {planted[fault].check, "direction", "norm", "losses", "evaluation_first"}
    assert planted[fault].check in failed_checks(verdict)


@pytest.mark.parametrize("fault", FAULTS_OF_NUMBERS)
@pytest.mark.parametrize("family", FAMILIES)
def test_numbers_that_are_kept_in_bf16_are_named(family, fault, see_faults, faulty_gate, tmp_path):
    """Whether the network computes in float32 or in bf16."""
    cells = {"fp32": DEEP} | ({"bf16": IN_HALVES["bf16"]} if FAMILIES[family].has_bf16 else {})
    for name, cell in cells.items():
        verdict = judge_fault(see_faults(family) / name, fault, faulty_gate.task(cell), tmp_path / name)
        assert verdict["status"] == "failed"
        (row,) = [row for row in verdict["checks"] if row["check"] == "numbers"]
        assert not row["passed"] and fault.partition("_")[0] in row["detail"]


@pytest.mark.parametrize("fault", FAULTS_OF_EXCHANGE)
@pytest.mark.parametrize("family", [name for name, family in FAMILIES.items() if family.has_bf16])
def test_other_formats_of_the_training_and_of_the_exchange_are_caught_in_bf16(
    family, fault, see_faults, faulty_gate, tmp_path
):
    verdict = judge_fault(see_faults(family) / "bf16", fault, faulty_gate.task(IN_HALVES["bf16"]), tmp_path)
    assert verdict["status"] == "failed"
    assert FAULTS_OF_EXCHANGE[fault].check in failed_checks(verdict)
    if fault == "trained_in_float32":
        assert "noise" in failed_checks(verdict)


@pytest.mark.parametrize("family", FAMILIES)
def test_another_format_of_the_exchange_is_caught_in_fp32(family, see_faults, faulty_gate, tmp_path):
    verdict = judge_fault(see_faults(family) / "fp32", EXCHANGED, faulty_gate.task(DEEP), tmp_path)
    assert FAULTS_OF_EXCHANGE[EXCHANGED].check in failed_checks(verdict)


@pytest.mark.parametrize("fault", FAULTS_OF_KVSTORE)
def test_a_kvstore_that_compresses_is_caught_by_its_exchange(fault, see_faults, faulty_gate, tmp_path):
    verdict = judge_fault(see_faults("gluon") / "fp32", fault, faulty_gate.task(DEEP), tmp_path)
    assert verdict["reason"].partition(" ")[0] == FAULTS_OF_KVSTORE[fault].check


@pytest.mark.parametrize("family", [name for name, family in FAMILIES.items() if family.has_bf16])
def test_a_network_that_ignores_bf16_is_caught_by_its_formats_and_by_its_noise(
    family, see_faults, faulty_gate, tmp_path
):
    task = faulty_gate.task(IN_HALVES["bf16"])
    verdict = judge_fault(see_faults(family) / "bf16", "precision_ignored", task, tmp_path)
    assert verdict["status"] == "failed"
    assert {"numbers", "noise"} <= failed_checks(verdict)
    assert "float32" in next(row["detail"] for row in verdict["checks"] if row["check"] == "numbers")


@pytest.mark.parametrize("fault", FAULTS_OF_LABELS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_loss_that_includes_unknown_labels_is_caught(family, fault, see_faults, faulty_gate, tmp_path):
    """Also one whose mean over two devices is not that over all known labels."""
    verdict = judge_fault(see_faults(family) / "sigmoid", fault, faulty_gate.task(SIGMOID), tmp_path)
    assert verdict["status"] == "failed"
    assert FAULTS_OF_LABELS[fault].check in failed_checks(verdict)


@pytest.mark.parametrize("fault", FAULTS_OF_ACCUMULATION)
@pytest.mark.parametrize("family", FAMILIES)
def test_steps_that_accumulate_otherwise_are_caught(family, fault, see_faults, faulty_gate, tmp_path):
    """They are caught by the reference, and by the framework's own step on one batch of three times the size."""
    seen = see_faults(family)
    verdict = judge_fault(seen / HALVES, fault, faulty_gate.task(LOSSES[HALVES]), tmp_path)
    assert verdict["status"] == "failed"
    assert FAULTS_OF_ACCUMULATION[fault].check in failed_checks(verdict)
    whole = seen / WHOLE / NONE
    assert "first" in find_excess(compare_steps(whole, seen / HALVES / fault))
    assert not find_excess(compare_steps(whole, seen / HALVES / NONE))


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
    assert FAULTS[fault].check in failed_checks(verdict)


@pytest.mark.parametrize("fault", FAULTS_OF_FP16)
@pytest.mark.parametrize("family", [name for name, family in FAMILIES.items() if family.has_fp16])
def test_each_fault_of_loss_scaling_is_caught(family, fault, see_faults, faulty_gate, tmp_path):
    verdict = judge_fault(see_faults(family) / "fp16", fault, faulty_gate.task(IN_HALVES["fp16"]), tmp_path)
    assert verdict["status"] == "failed"
    assert FAULTS_OF_FP16[fault].check in failed_checks(verdict)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_passes_after_its_faults(family, see_faults, faulty_gate, tmp_path):
    """A fault that outlived its turn would be seen."""
    cells = dict(IN_FP32)
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
    cells = {"small": SMALL, "fp16": COMPRESSED["fp16"]}
    cell_of = dict.fromkeys(FAULTS_OF_HOROVOD, "small") | {"fp16_not_compressed": "fp16"}
    faults = ",".join([*(f"{name}:sgd:{cell}" for name, cell in cell_of.items() if name != NONE), EVERYTHING])
    seen = faulty_gate.observe(names, environment, cells, 2, PLANTED_FAULTS=faults)
    for cell in cells if fault == NONE else [cell_of[fault]]:
        verdict = judge_fault(seen / cell, fault, faulty_gate.task(cells[cell]), tmp_path / cell)
        assert verdict["reason"].partition(" ")[0] == FAULTS_OF_HOROVOD[fault]
        assert verdict["status"] == ("passed" if fault == NONE else "failed")


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("fault", [*FAULTS_OF_COMPRESSION, NONE])
def test_a_compression_that_does_something_else_is_caught(fault, precision, faulty_gate, tmp_path):
    planted, cells = FAMILIES["torch"], {}
    names = {"framework": planted.strategy, "family": "torch", "strategy": "planted", "launcher": planted.launcher}
    for name in FAULTS_OF_COMPRESSION:
        compression = name.partition("_")[0]
        cells |= {f"{name}:sgd:{cell}": cell for cell in COMPRESSED if cell.partition("_")[0] == compression}
    faults = ",".join([*cells, EVERYTHING])
    seen = faulty_gate.observe(names, planted.environment, COMPRESSED, 2, PLANTED_FAULTS=faults)
    for cell, described in COMPRESSED.items():
        if cell.endswith("bf16") == (precision == "bf16") and f"{fault}:sgd:{cell}" in [*cells, f"{NONE}:sgd:{cell}"]:
            verdict = judge_fault(seen / cell, fault, faulty_gate.task(described), tmp_path / cell)
            assert failed_checks(verdict) == (set() if fault == NONE else {"exchange"})


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
    progress, reason = str(failure.value).split("The parity gate's task was not done:")
    assert "faulty, small_cnn, fp32, own, on 1 device (second)" in progress
    assert "faulty, small_cnn, no_such_precision, sgd, on 1 device crashed" in reason
    assert "faulty, small_cnn, fp32" not in reason
