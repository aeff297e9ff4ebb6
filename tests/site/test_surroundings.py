"""The workflow's own processes get what they need of a shell, and nothing else; a user's program gets everything."""

import os

import pytest

from helpers.shell_variables import RUBBISH, TOKENS
from helpers.specs import make_spec
from howmanygpus.base.environment import (
    KEEP,
    LEFT_OUT,
    OF_SNAKEMAKE,
    PASSIVE,
    build_surroundings,
    build_unmeasured,
)
from howmanygpus.measure.host.placement import Placement
from howmanygpus.measure.launch.environment import build_environment
from howmanygpus.measure.program.spec import ProgramSpec

NEEDED = {
    **{"PATH": "/opt/site/bin:/bin", "HOME": "/home/me", "LANG": "C.UTF-8", "LD_LIBRARY_PATH": "/opt/site/lib"},
    **{"SLURM_JOB_ID": "7", "SLURM_CONF": "/etc/slurm.conf", "CUDA_VISIBLE_DEVICES": "2,3", "KRB5CCNAME": "FILE:/c"},
    **{"NCCL_SOCKET_IFNAME": "ib0", "OMPI_MCA_btl": "tcp,self", "UCX_NET_DEVICES": "mlx5_0:1", "LOADEDMODULES": "a/1"},
    **{"HOWMANYGPUS_CACHE": "/cache", "MODULEPATH": "/opt/modules", "PYTHONPATH": "workflow/lib"},
}


@pytest.fixture
def shell(monkeypatch):
    """Return a function that replaces the variables of this process."""
    return lambda variables: monkeypatch.setattr(os, "environ", dict(variables))


@pytest.mark.parametrize("tier", ["stock", "best"])
def test_a_framework_gets_its_variables_and_the_others_are_named(shell, tier):
    shell(NEEDED | RUBBISH | TOKENS)
    found = build_environment(make_spec(tier=tier), Placement())
    assert found.items() >= NEEDED.items()
    assert found["KERAS_HOME"] == "/cache/keras"
    assert not {name for name, value in (RUBBISH | TOKENS).items() if found.get(name) == value}
    assert {*found[LEFT_OUT].split()} == {*RUBBISH, *TOKENS}


def test_packages_of_a_sites_snakemake_are_for_the_steps_alone():
    built = build_surroundings(NEEDED | {"PYTHONPATH": "/the/lib:/site/a:/site/b", OF_SNAKEMAKE: "/site/a:/site/b"})
    assert built["PYTHONPATH"] == "/the/lib" and build_surroundings(built)["PYTHONPATH"] == "/the/lib"


def test_images_left_out_twice_are_named_once():
    once = build_surroundings(NEEDED | RUBBISH)
    assert build_surroundings(once) == once


def test_a_program_gets_all_variables_of_its_user(shell):
    given = NEEDED | TOKENS | {name: value for name, value in RUBBISH.items() if name != "OMP_NUM_THREADS"}
    shell(given)
    program = ProgramSpec(
        *("p", "own", "p", {}, "p", "base", "program", "fp32", "cpu", "cpu", 1, 1, 32, 1, 32, 1, 5, "program"),
        *("once", "plain", 1, 0, {"command": "true", "start": "once"}),
    )
    found = build_environment(program, Placement())
    assert {name for name in given if found.get(name) != given[name]} <= {"PYTHONUNBUFFERED", "RANK", "WORLD_SIZE"}


def test_a_user_may_keep_variables_by_name(shell):
    shell(NEEDED | RUBBISH | {KEEP: "XLA_FLAGS JAX_ENABLE_X64"})
    found = build_environment(make_spec(), Placement())
    assert (found["XLA_FLAGS"], found["JAX_ENABLE_X64"]) == (RUBBISH["XLA_FLAGS"], "1")
    assert not {"XLA_FLAGS", "JAX_ENABLE_X64"} & {*found[LEFT_OUT].split()}


def test_the_variables_of_the_scratch_folder_are_kept(shell):
    shell({"SCRATCH": "/scratch", "TMPDIR": "/t" * 60, "OTHER": "1"})
    found = build_environment(make_spec(), Placement(scratch="$SCRATCH/${TMPDIR}/x"))
    assert (found["SCRATCH"], found["TMPDIR"], found.get("OTHER")) == ("/scratch", "/t" * 60, None)


@pytest.mark.parametrize("name", ["missing", "long"])
def test_a_folder_in_which_sockets_fail_is_not_used(tmp_path, name):
    folder = tmp_path / ("x" * 80 if name == "long" else "missing")
    if name == "long":
        folder.mkdir()
    found = build_surroundings({"TMPDIR": str(folder)})
    assert "TMPDIR" not in found and found[LEFT_OUT] == "TMPDIR"
    assert build_surroundings({"TMPDIR": "/tmp"})["TMPDIR"] == "/tmp"


def test_idle_threads_of_openmp_sleep_where_nothing_is_measured(shell):
    """They would otherwise keep the gate's other threads from their cores. The gate's processes start others."""
    shell(build_unmeasured(NEEDED | RUBBISH | {"OMP_WAIT_POLICY": "ACTIVE"}))
    found = build_environment(make_spec(), Placement())
    assert found.items() >= PASSIVE.items()
    assert found["OMP_NUM_THREADS"] == "1", "other variables of the shell change nothing"
    shell(build_unmeasured(NEEDED | {"GOMP_SPINCOUNT": "9", KEEP: "GOMP_SPINCOUNT"}))
    assert build_environment(make_spec(), Placement())["GOMP_SPINCOUNT"] == "9"
    shell(NEEDED | PASSIVE)
    assert not PASSIVE.keys() & build_environment(make_spec(), Placement()).keys(), "a measured run"


def test_malloc_keeps_memory_in_the_tier_best_alone(shell):
    shell(NEEDED)
    stock, best = (build_environment(make_spec(tier=tier), Placement()) for tier in ("stock", "best"))
    assert {*best} - {*stock} == {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"}
