"""docs/parity.md is generated from the gate and its tests, and names no fault that is not planted."""

import pytest

from gate.document import IN_FP32, PATH, render
from gate.faults import FAMILIES, FAULTS, FAULTS_OF_EXCHANGE, FAULTS_OF_FP16, FAULTS_OF_NUMBERS, IGNORED_PRECISION
from howmanygpus.gate.judge import CHECKS
from project import FAKES


def test_the_document_matches_its_generator():
    assert PATH.read_text() == render(), "docs/parity.md has drifted: run `make references`"


@pytest.mark.parametrize("family", FAMILIES)
def test_every_fault_is_planted_in_the_family(family):
    text = "".join((FAKES / name).read_text() for name in ("planted.py", f"planted_{family}.py"))
    faults = IN_FP32 | (FAULTS_OF_FP16 if FAMILIES[family].has_fp16 else {})
    assert [fault for fault in faults if f'"{fault}"' not in text] == []


def test_each_check_is_shown_to_fail():
    faults = FAULTS | FAULTS_OF_EXCHANGE | FAULTS_OF_FP16 | FAULTS_OF_NUMBERS | IGNORED_PRECISION
    assert {fault.check for fault in faults.values()} == set(CHECKS)
