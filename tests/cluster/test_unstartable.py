"""Jobs that SLURM refuses or never starts are named on the screen, and SIGTERM does not wait for them."""

import re

import pytest

from hanging import HANG_S
from project import ROWS, study

LONGER_THAN_ITS_PARTITION_MIN = 2000
ANY_QOS = {"qos": "normal"}
"""With a quality of service, which may exceed the limits of a partition, only SLURM knows that a job is too long."""
REFUSED = "--licenses=unheard_of"
"""An option of which only sbatch knows that it is wrong."""
REFUSAL = "SLURM refused the job: sbatch: error:"
OLDER = "these words are older than the attempt"


def write_study(project, **changes):
    changes = {"num_gpus": [1], "per_device_batch_size": [8], **changes}
    project.write_config(grid=study(frameworks=["sleeping"], devices=["fake"], **changes))
    project.edit("workflow/lib/howmanygpus/invocation/waiting.py", "\nREPORT_S = 6\n")


def read_messages(project) -> str:
    """Return what Snakemake has printed so far, by its own log."""
    return "".join(path.read_text() for path in (project.folder / ".snakemake" / "log").glob("*.log"))


@pytest.fixture
def drained(cluster):
    nodes = ",".join(cluster.nodes)
    cluster.run("scontrol", "update", f"NodeName={nodes}", "State=DRAIN", "Reason=test")
    yield
    cluster.run("scontrol", "update", f"NodeName={nodes}", "State=RESUME")


def check_named_and_cancelled(project, cluster, *words):
    """Check that the waiting job is named at once and again later, and that SIGTERM cancels it and ends the call."""
    process = project.start(*ROWS)
    project.wait_until(lambda: "cannot start" in read_messages(project), "the message about the job")
    project.wait_until(lambda: "1 job waits in SLURM's queue: 1 for " in read_messages(project), "the second message")
    process.terminate()
    output, _ = process.communicate(timeout=HANG_S)
    assert all(word in output for word in words), output
    assert output.count("SLURM cannot start job") == 1, "a job is named once"
    assert "The call was interrupted by SIGTERM; jobs that had not started were cancelled." in output
    assert process.returncode == 1 and "Some steps failed" not in output
    assert cluster.run("squeue", "--noheader", "--format=%i") == ""


def test_a_job_longer_than_its_partition_allows_is_named_and_sigterm_cancels_it(project, cluster):
    project.write_machine(**ANY_QOS)
    write_study(project, time_limit_min=LONGER_THAN_ITS_PARTITION_MIN)
    check_named_and_cancelled(project, cluster, "PartitionTimeLimit", "of the partition gpu; lower `time_limit_min`")


@pytest.mark.usefixtures("drained")
def test_a_job_for_a_drained_cluster_is_named_and_sigterm_cancels_it(project, cluster):
    write_study(project)
    check_named_and_cancelled(project, cluster, "down, drained or reserved; `sinfo -R` says why")


def test_a_job_whose_request_became_impossible_is_named_and_sigterm_cancels_it(project, cluster):
    """The nodes lose a feature while the job waits. SLURM refuses such a request only when a job is submitted."""
    nodes = f"NodeName={','.join(cluster.nodes)}"
    cluster.run("scontrol", "update", nodes, "AvailableFeatures=quick", "ActiveFeatures=quick")
    exclusive = ("--partition=gpu", f"--nodes={len(cluster.nodes)}", "--exclusive", "--output=/dev/null")
    cluster.run("sbatch", *exclusive, "--wrap=sleep 600")
    running, waiting = (
        ("squeue", "--noheader", f"--states={state}", "--format=%i") for state in ("RUNNING", "PENDING")
    )
    project.wait_until(lambda: cluster.run(*running), "the other job")
    project.write_machine(constraint="quick")
    write_study(project)
    process = project.start(*ROWS)
    project.wait_until(lambda: cluster.run(*waiting), "the job")
    cluster.run("scontrol", "update", nodes, "AvailableFeatures=slow", "ActiveFeatures=slow")
    project.wait_until(lambda: "cannot start" in read_messages(project), "the message about the job")
    process.terminate()
    output, _ = process.communicate(timeout=HANG_S)
    assert "BadConstraints: no node of the partition gpu has what is asked for; compare" in output, output
    assert cluster.run(*waiting) == ""


def test_sigterm_cancels_pending_jobs_and_waits_for_running_ones(project, cluster):
    options = {"frameworks": ["sleeping"], "devices": ["fake"], "per_device_batch_size": [8]}
    endless = study(**options, num_gpus=[1], time_limit_min=LONGER_THAN_ITS_PARTITION_MIN)
    project.write_machine(**ANY_QOS)
    project.write_config(usual=study(**options, num_gpus=[2]), endless=endless)
    project.behave(usual__="wait_for_file")
    process = project.start(*ROWS)
    running = project.wait_for_running("usual/")["id"]
    project.wait_until(lambda: "SLURM cannot start job" in read_messages(project), "the message about the other job")
    comments = sorted(cluster.run("squeue", "--noheader", "--format=%k").split())
    assert len(comments) == 2 and "endless" in comments[0] and "usual" in comments[1], "they tell the runs apart"
    process.terminate()
    others = ("squeue", "--noheader", "--format=%i")
    project.wait_until(lambda: cluster.run(*others).split() == [running], "the other job's end")
    (project.folder / "go_on").touch()
    output, _ = process.communicate(timeout=HANG_S)
    assert process.returncode == 1 and "interrupted by SIGTERM" in output, output
    assert len(list((project.folder / "results" / "runs" / "usual").rglob("run.json"))) == 1, output


def test_a_refusal_is_shown_and_becomes_the_reason(project):
    write_study(project)
    project.edit_profile(retries=1)
    project.snakemake("results/probe/fake.json")
    project.write_machine(sbatch_options=REFUSED)
    log = project.folder / "results" / "logs" / "train" / "grid/sleeping/base/arrays_fp32_fake_gpus1_batch8_repeat1.log"
    log.parent.mkdir(parents=True)
    log.write_text(OLDER)
    output = project.snakemake(*ROWS, expect=1)
    assert REFUSAL in " ".join(output.split()), output
    assert OLDER not in output and "Traceback" not in output and "Logging error" not in output, output
    project.snakemake("available", *ROWS)
    (row,) = project.read_rows()
    assert row["status"] == "refused" and row["reason"].startswith(REFUSAL), row
    assert log.read_text().startswith(REFUSAL)


def test_a_limit_below_the_request_of_a_job_stops_the_call(project):
    write_study(project)
    output = project.snakemake(*ROWS, "--resources", "mem_mb=1", expect=1)
    assert "--resources mem_mb: 1 is less than the " in output, output
    assert not list((project.folder / "results").glob("probe/*")), "nothing started"


def test_a_run_quotes_the_refusal_of_its_probe(project):
    project.write_machine(sbatch_options=REFUSED)
    write_study(project)
    project.edit_profile(retries=1)
    output = project.snakemake(*ROWS, expect=1)
    assert output.count(f"probe_device: {REFUSAL}") == 1, output
    status, reason = find_end(project)
    assert status == "blocked" and f"which the run needs, failed: {REFUSAL}" in reason, reason


def test_a_job_that_ends_before_it_started_quotes_no_older_log(project, cluster):
    project.write_machine(**ANY_QOS)
    write_study(project, time_limit_min=LONGER_THAN_ITS_PARTITION_MIN)
    log = project.folder / "results" / "logs" / "train" / "grid/sleeping/base/arrays_fp32_fake_gpus1_batch8_repeat1.log"
    log.parent.mkdir(parents=True)
    log.write_text(OLDER)
    process = project.start(*ROWS)
    project.wait_until(lambda: "cannot start" in read_messages(project), "the message about the job")
    project.wait_until(lambda: "1 job waits in SLURM's queue: 1 for " in read_messages(project), "the second message")
    (job,) = cluster.run("squeue", "--noheader", "--format=%i").split()
    cluster.run("scancel", job)
    output, _ = process.communicate(timeout=HANG_S)
    assert f"cancelled: the job was cancelled (job {job})" in output and OLDER not in output, output
    screen = " ".join(output.split())
    assert screen.count(f"SLURM cannot start job {job}") == 1 and "1 job waits in SLURM's queue: 1 for " in screen, (
        output
    )
    assert "Traceback" not in output and "Logging error" not in output, output
    assert find_end(project) == ("cancelled", f"the job was cancelled (job {job})")


def find_end(project) -> tuple[str, str]:
    """Return status and reason of the only run."""
    project.snakemake("available", *ROWS)
    (row,) = project.read_rows()
    return row["status"], row["reason"]


def test_a_job_that_dies_during_startup_is_a_crash_with_the_end_of_its_log(project):
    write_study(project)
    script = project.folder / "workflow" / "scripts" / "train.py"
    script.write_text(script.read_text().replace("import argparse\n", "raise SystemExit('told to end')\n", 1))
    output = project.snakemake(*ROWS, expect=1)
    status, reason = find_end(project)
    assert status == "crashed" and reason in output, output
    assert re.fullmatch(r"job \d+ ended before the run began: told to end", reason)
