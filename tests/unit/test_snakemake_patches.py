"""Patches are applied once, only to the functions they were written for, and change the intended behaviour."""

import asyncio
import functools
import os
import re
import threading
import time
from collections import defaultdict
from types import SimpleNamespace

import pytest
import snakemake.api  # noqa: F401  (snakemake.dag cannot be imported before it)
import snakemake_executor_plugin_slurm as slurm_plugin
from packaging.specifiers import SpecifierSet
from snakemake.dag import DAG
from snakemake.scheduling.job_scheduler import JobScheduler
from snakemake_executor_plugin_slurm import efficiency_report
from snakemake_interface_common.exceptions import WorkflowError

from howmanygpus.site.slurm import Job
from howmanygpus.snakemake_patches import (
    accounts,
    cancelling,
    ending,
    failing,
    interrupting,
    naming,
    one_snakemake,
    patching,
    planning,
    states,
    submitting,
)
from project import ROOT

SLURM_PLUGIN = "snakemake-executor-plugin-slurm"
PATCHES = [
    (planning, "snakemake", DAG, "bfs"),
    (planning, "snakemake", DAG, "update_needrun"),
    (interrupting, "snakemake", JobScheduler, "schedule"),
    (states, SLURM_PLUGIN, slurm_plugin.Executor, "check_active_jobs"),
    (cancelling, SLURM_PLUGIN, slurm_plugin.Executor, "cancel_jobs"),
    (accounts, SLURM_PLUGIN, slurm_plugin.Executor, "get_account_arg"),
    (naming, SLURM_PLUGIN, slurm_plugin, "get_submit_command"),
    (naming, SLURM_PLUGIN, efficiency_report, "get_sacct_data"),
    (ending, SLURM_PLUGIN, slurm_plugin.Executor, "sleep"),
    (ending, "snakemake-interface-executor-plugins", slurm_plugin.Executor, "sleep"),
    (one_snakemake, SLURM_PLUGIN, slurm_plugin.Executor, "additional_general_args"),
    (submitting, SLURM_PLUGIN, slurm_plugin.Executor, "_report_job_error_threadsafe"),
    (submitting, SLURM_PLUGIN, slurm_plugin.Executor, "_report_job_submission_threadsafe"),
    (submitting, SLURM_PLUGIN, slurm_plugin.Executor, "run_job"),
    (failing, "snakemake", JobScheduler, "run"),
    (failing, "snakemake", JobScheduler, "_handle_error"),
]
"""Each patch, a package that it needs, and the place of the function that it replaces."""
each_patch = pytest.mark.parametrize(
    ("patch", "package", "owner", "name"), PATCHES, ids=[f"{name}-{package}" for _, package, _, name in PATCHES]
)


@pytest.fixture(autouse=True)
def upstream(monkeypatch):
    """Start each test with the packages' own functions, and restore them after it."""
    for _, _, owner, name in PATCHES:
        function = getattr(owner, name)
        assert not hasattr(function, patching.MARK)
        monkeypatch.setattr(owner, name, function)


@each_patch
def test_an_untested_version_is_refused_with_the_remedy(monkeypatch, patch, package, owner, name):
    before, installed = getattr(owner, name), patching.version
    monkeypatch.setattr(patching, "version", lambda each: "10.1.0" if each == package else installed(each))
    with pytest.raises(WorkflowError) as error:
        patch.apply()
    words = str(error.value)
    assert f"{package} 10.1.0 is installed" in words and f"tested with {patching.TESTED[package]} only" in words
    assert "Install the versions that envs/workflow.txt pins" in words
    assert f"widen the range in {patching.__file__}" in words
    assert getattr(owner, name) is before


def test_the_pinned_versions_are_tested_ones():
    pins = dict(re.findall(r"^([\w-]+)==(\S+)$", (ROOT / "envs" / "workflow.txt").read_text(), flags=re.MULTILINE))
    for package in ("snakemake", SLURM_PLUGIN):
        assert SpecifierSet(patching.TESTED[package]).contains(pins[package])


@each_patch
def test_a_patch_that_is_applied_twice_is_applied_once(patch, package, owner, name):
    before = getattr(owner, name)
    patch.apply()
    once = getattr(owner, name)
    patch.apply()
    assert getattr(owner, name) is once and once.__wrapped__ is before


def decorate(function):
    """Decorate a function as another library might."""

    @functools.wraps(function)
    def decorated(*arguments, **options):
        return function(*arguments, **options)

    return decorated


@each_patch
def test_a_function_that_is_decorated_already_is_patched(monkeypatch, patch, package, owner, name):
    decorated = decorate(getattr(owner, name))
    monkeypatch.setattr(owner, name, decorated)
    patch.apply()
    assert hasattr(getattr(owner, name), patching.MARK) and getattr(owner, name).__wrapped__ is decorated


@each_patch
def test_a_patch_below_the_decorator_of_another_library_is_enough(monkeypatch, patch, package, owner, name):
    patch.apply()
    decorated = decorate(getattr(owner, name))
    monkeypatch.setattr(owner, name, decorated)
    patch.apply()
    assert getattr(owner, name) is decorated


@each_patch
@pytest.mark.parametrize("foreign", [lambda self, others: None, "no function", None])
def test_a_foreign_function_is_refused(monkeypatch, patch, package, owner, name, foreign):
    monkeypatch.setattr(owner, name, foreign)
    with pytest.raises(
        WorkflowError, match=rf"{owner.__name__}\.{name} is .*, but .* was written for snakemake.*{name}"
    ):
        patch.apply()
    assert getattr(owner, name) is foreign


@pytest.mark.parametrize("patch", dict.fromkeys(patch for patch, *_ in PATCHES))
def test_a_patch_and_the_page_for_the_maintainers_name_the_same_issues(patch):
    name = patch.__name__.rpartition(".")[2]
    page = (ROOT / "docs" / "upstream.md").read_text()
    assert f"[`{name}.py`](#{name})" in page
    section = page.split(f"\n## {name}\n")[1].split("\n## ")[0]
    issues = re.findall(r"https://github.com/\S+/(?:issues|pull)/\d+", patch.__doc__)
    assert all(issue in section for issue in issues) and (issues or "We found no issue" in section)
    assert "Upstream: " in patch.__doc__ and "Tested with " in patch.__doc__


def answer(states_of_jobs: str, monkeypatch, tmp_path) -> tuple[list[str], list[str], list[str]]:
    """Return the jobs that succeed, that fail and that go on, if squeue prints these states."""
    squeue = tmp_path / "squeue"
    squeue.write_text(f"#!/bin/sh\ncat <<'END'\n{states_of_jobs}\nEND\n")
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    states.apply()
    succeeded, failed, active = [], [], []
    settings = SimpleNamespace(init_seconds_before_status_checks=20, keep_successful_logs=False, requeue=False)
    executor = SimpleNamespace(
        wait=True,
        next_seconds_between_status_checks=20,
        workflow=SimpleNamespace(executor_settings=settings),
        get_status_command=lambda: "squeue",
        report_job_success=lambda job: succeeded.append(job.external_jobid),
        report_job_error=lambda job, **_: failed.append(job.external_jobid),
    )
    jobs = [SimpleNamespace(external_jobid=each, aux={}) for each in ("1", "2", "3")]

    async def check():
        async for job in slurm_plugin.Executor.check_active_jobs(executor, jobs):
            active.append(job.external_jobid)

    asyncio.run(check())
    return succeeded, failed, active


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("1|COMPLETED\n2|CANCELLED by 1000\n3|RUNNING", (["1"], ["2"], ["3"])),
        ("1|TIMEOUT\n2|UNKNOWN\n3|SOMETHING_NEW", ([], ["1"], ["2", "3"])),
        ("", ([], [], ["1", "2", "3"])),
        ("squeue: warning: maintenance\n1|COMPLETED", (["1"], [], ["2", "3"])),
    ],
)
def test_a_job_ends_only_by_a_state_in_which_jobs_end(monkeypatch, tmp_path, printed, expected):
    assert answer(printed, monkeypatch, tmp_path) == expected


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (Job("1", "PENDING"), []),
        (Job("1", "PENDING", may_requeue=False), ["1"]),
        (Job("1", "PREEMPTED"), ["1"]),
    ],
    ids=["requeued", "not to be requeued", "cancelled with PreemptMode=CANCEL"],
)
def test_a_preempted_job_is_waited_for_if_it_starts_again(monkeypatch, tmp_path, job, expected):
    monkeypatch.setattr(states, "find_job", lambda job_id: job)
    assert answer("1|PREEMPTED\n2|RUNNING\n3|RUNNING", monkeypatch, tmp_path)[1] == expected


def test_a_job_has_a_name_that_says_what_it_does_and_is_asked_for_by_it(monkeypatch):
    monkeypatch.setattr(naming, "NAMES", defaultdict(set))
    naming.apply()
    params = {"run_uuid": "a-call", "slurm_logfile": "log", "comment_str": "", "account": "", "partition": ""}
    params |= {"workdir": "."}
    cell = "digits/jax_sharding/base/arrays_fp32_a100_gpus4_batch32_repeat1"
    spread = cell.replace("gpus4", "gpus4_nodes2")
    runs = [("train", {"run": path}) for path in (cell, spread)]
    for rule, wildcards in (*runs, ("probe_device", {"device": "a100"}), ("plan", {})):
        job = SimpleNamespace(name=rule, wildcards_dict=wildcards, resources=Resources(), threads=1)
        job.is_group = lambda: False
        slurm_plugin.get_submit_command(job, params)
    names = "jax_sharding_gpus4_a-call,jax_sharding_gpus4_nodes2_a-call,plan_a-call,probe_device_a100_a-call"
    monkeypatch.setattr(
        efficiency_report.subprocess, "run", lambda command, **_: SimpleNamespace(stdout=" ".join(command))
    )
    (asked,) = efficiency_report.get_sacct_data("a-call", None)
    assert f"--name={names}" in asked


class Resources(dict):
    """Resources of a job, which the plugin reads as keys and as attributes."""

    __getattr__ = dict.get


def test_without_an_account_none_is_guessed(monkeypatch):
    monkeypatch.setattr(slurm_plugin, "get_account", lambda logger: pytest.fail("an account is guessed"))
    monkeypatch.setattr(slurm_plugin, "validate_account", lambda account, logger: account)
    accounts.apply()
    executor = SimpleNamespace(_fallback_account_arg=None, logger=None)
    find = slurm_plugin.Executor.get_account_arg
    assert list(find(executor, SimpleNamespace(resources=Resources()))) == [""]
    assert list(find(executor, SimpleNamespace(resources=Resources(slurm_account="lab")))) == [" -A lab"]


def test_the_end_of_a_call_waits_for_no_question():
    ending.apply()
    for name, value in (("wait", False), ("next_seconds_between_status_checks", 0.2)):
        executor, started = SimpleNamespace(wait=True, next_seconds_between_status_checks=600), time.monotonic()
        threading.Timer(0.1, setattr, (executor, name, value)).start()
        asyncio.run(slurm_plugin.Executor.sleep(executor))
        assert time.monotonic() - started < 300, "a pause may become shorter"
    executor = SimpleNamespace(wait=True, next_seconds_between_status_checks=0.2)
    started = time.monotonic()
    asyncio.run(slurm_plugin.Executor.sleep(executor))
    assert time.monotonic() - started >= 0.2


def test_a_job_starts_one_snakemake_and_a_job_of_an_array_a_second():
    one_snakemake.apply()
    settings = SimpleNamespace(executor_settings=SimpleNamespace(pass_command_as_script=False))
    asked = {
        rules: slurm_plugin.Executor.additional_general_args(SimpleNamespace(array_jobs=set(rules), workflow=settings))
        for rules in ((), ("train",))
    }
    assert asked == {(): [], ("train",): "--executor slurm-jobstep --jobs 1"}


def test_what_a_job_asked_for_is_not_asked_again_by_what_it_starts(monkeypatch):
    kept = {"SLURM_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "1", "SLURM_CONF": "slurm.conf", "HOME": "/"}
    given = kept | {"SLURM_NTASKS": "2", "SRUN_CPUS_PER_TASK": "4", "SBATCH_EXCLUSIVE": "1"}
    monkeypatch.setattr(os, "environ", given)
    one_snakemake.forget_requests()
    assert given == kept
