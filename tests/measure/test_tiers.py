"""The page on the tiers has all variables that launcher and backends set."""

import os
import re

import pytest

from helpers.specs import make_spec
from howmanygpus.base.environment import LEFT_OUT
from howmanygpus.measure.host.placement import Placement
from howmanygpus.measure.launch.environment import build_environment
from howmanygpus.registry import FRAMEWORKS
from project import ROOT

PAGE = (ROOT / "docs" / "tiers.md").read_text()
BOTH, BEST = PAGE.split("## In the tier `best` alone")
ADDRESSES = re.compile(r"HOWMANYGPUS_\w+|DMLC_\w+|PS_\w+|TF_CONFIG|HOROVOD_(\w+_)?(RANK|SIZE|HOSTNAME|ADDR|PORT|IFACE)")
"""Variables that tell processes how to meet."""


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_the_page_names_variables_that_the_launcher_sets(monkeypatch, kind):
    monkeypatch.setattr(os, "environ", {})
    stock, best = (
        {*build_environment(make_spec(tier=tier, device_kind=kind), Placement())} - {LEFT_OUT}
        for tier in ("stock", "best")
    )
    assert {name for name in stock if name not in BOTH} == set()
    assert {name for name in best - stock if name not in BEST} == set()
    assert best > stock


def test_the_page_names_variables_that_backends_set():
    found = set()
    for path in (ROOT / "workflow/lib/howmanygpus/measure/frameworks").rglob("*.py"):
        text = path.read_text()
        found |= set(re.findall(r'environ\["(\w+)"\] = ', text))
        found |= set(re.findall(r'environ\.setdefault\(\s*"(\w+)"', text))
        for block in re.findall(r"environ \|= \{(.*?)\n?\s*\}", text, re.DOTALL):
            found |= set(re.findall(r'"([A-Z_]+)": ', block))
    assert {"PJRT_NPROC", "HOROVOD_CONTROLLER", "NVIDIA_TF32_OVERRIDE"} <= found
    assert {name for name in found if name not in BOTH and not ADDRESSES.fullmatch(name)} == set()


def test_the_page_has_every_framework_with_its_path():
    for name, entry in FRAMEWORKS.items():
        assert f"| `{name}` | {entry.best.get('cpu', '-')} | {entry.best.get('cuda', '-')} |" in BEST
