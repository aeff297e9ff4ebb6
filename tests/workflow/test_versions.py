"""The oldest, a later and the pinned Snakemake do the same; older ones are refused, newer ones are named."""

import re
import subprocess
import sys

import pytest
import yaml

from forking import STARTED_BY_USERS
from howmanygpus.invocation.versions import TESTED
from howmanygpus.site.environments.build import build_environment
from howmanygpus.site.environments.pins import read_requirements
from project import ROOT, RUNS, study

PINNED = re.search(r"^snakemake==(\S+)", (ROOT / "envs" / "workflow.txt").read_text(), re.MULTILINE)[1]
OLDEST = re.match(r">=(\d+\.\d+)", TESTED["snakemake"])[1] + ".0"
VERSIONS = (OLDEST, "9.25.2", PINNED)
SHORT_TESTS = [
    *("tests/invocation/test_snakemake_patches.py", "tests/invocation/test_passes.py"),
    *("tests/invocation/test_starting.py", "tests/invocation/test_failing.py", "tests/invocation/progress"),
]


@pytest.fixture(scope="module", params=VERSIONS)
def python(request, tmp_path_factory) -> str:
    """Return a Python with a version of Snakemake, what requirements.txt lists, and pytest."""
    listed = subprocess.run([sys.executable, "-m", "pip", "index", "versions", "snakemake"], capture_output=True)
    if listed.returncode:
        pytest.skip("the index cannot be asked for versions of Snakemake")
    tools = [line for line in read_requirements(ROOT / "envs" / "development.txt") if line.startswith("pytest")]
    pins = tmp_path_factory.mktemp("site") / "site.txt"
    needed = [line for line in read_requirements(ROOT / "requirements.txt") if not line.startswith("snakemake>")]
    pins.write_text("\n".join([f"snakemake=={request.param}", *needed, *tools]))
    return build_environment("snakemake", [pins])["python"]


def test_a_study_runs_in_several_passes_with_a_crash_and_its_reason(project, prepared, python):
    project.take_prepared(prepared)
    project.behave(sleeping__base__gpus1_="crash")
    project.write_config(small=study(num_gpus="auto", stop_below_efficiency=0.1))
    command = [python, *STARTED_BY_USERS[1:], "--profile", project.profile, *RUNS]
    called = subprocess.run(command, cwd=project.folder, env=project.environment(), capture_output=True, text=True)
    printed = called.stdout + called.stderr
    assert called.returncode == 1, "the status is that of the worst pass, and not of the last"
    assert "this call goes on with another pass" in printed, printed[-3000:]
    last = printed[printed.index("The first that failed: ") :]
    assert "gpus1" in last and "crashed: RuntimeError: the fake backend was told to crash" in last
    completed = {path.split("/")[1] + path[path.index("_gpus") :].split("_")[1] for path in project.read_records()}
    assert {"dozinggpus1", "dozinggpus2"} <= completed, printed[-6000:]
    assert not any("sleeping" in each for each in completed)


@pytest.mark.parametrize(("profile", "device"), [("local", "cpu"), ("slurm", "a100")])
def test_a_dry_run_needs_snakemake_and_a_profile_alone(python, project, tmp_path, profile, device):
    small = study(frameworks=["pytorch_ddp"], devices=[device])
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump({"studies": {"small": small}}))
    code = ["--snakefile", ROOT / "workflow" / "Snakefile", "--profile", ROOT / "profiles" / profile]
    command = [python, *STARTED_BY_USERS[1:], *map(str, code), "--configfile", "mine.yaml", "--dry-run"]
    called = subprocess.run(command, cwd=tmp_path, env=project.environment(), capture_output=True, text=True)
    assert called.returncode == 0 and "This call would do" in called.stdout + called.stderr, called.stderr[-3000:]


def test_the_short_tests_of_the_invocation_pass(python, tmp_path):
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'tests'}"]
    tested = subprocess.run([*command, *SHORT_TESTS], cwd=ROOT, capture_output=True, text=True)
    assert tested.returncode == 0, tested.stdout[-3000:] + tested.stderr[-1000:]


def test_an_older_version_is_refused_with_the_range(project):
    project.edit("workflow/lib/howmanygpus/invocation/versions.py", '\nTESTED["snakemake"] = ">=99,<100"\n')
    printed = project.snakemake("--dry-run", expect=1)
    message = printed.splitlines()[-1]
    assert PINNED in message and ">=99,<100" in message and "pip install 'snakemake>=99,<100'" in message


def test_a_newer_version_plans_with_a_warning_of_what_was_compared(project):
    project.edit("workflow/lib/howmanygpus/invocation/versions.py", '\nTESTED["snakemake"] = ">=7,<8"\n')
    printed = project.snakemake("--dry-run")
    (warned,) = (line for line in printed.splitlines() if f"snakemake {PINNED} is installed" in line)
    assert ">=7,<8" in warned and "names and parameters" in warned and "envs/workflow.txt" in warned
