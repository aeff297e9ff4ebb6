"""What is shown of a run is read from its files, whatever is there yet."""

import json

import numpy as np
import pytest

from howmanygpus.invocation.progress.following import IN_QUEUE, STARTS, WAITS, RunFollower, read_ended_run

RUN = "small/sleeping/base/arrays_fp32_cpu_gpus2_batch64_repeat1"
WINDOW = {"event": "window", "epoch": 1, "num_steps": 5, "elapsed_s": 0.5, "loss": 0.5}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_attempt(folder, name="20260101T000000-7", status="running", **spec):
    attempt = folder / "results" / "attempts" / RUN / name
    attempt.mkdir(parents=True)
    (attempt / "attempt.json").write_text(json.dumps({"status": status}))
    (attempt / "spec.json").write_text(json.dumps({"global_batch_size": 128, "epochs": 12, "steps": None} | spec))
    return attempt


def write_job(folder, attempt, *held):
    record = folder / "results" / "jobs" / "run" / RUN / "20260101T000000-host-7.json"
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text(json.dumps({"attempt": str(attempt.relative_to(folder))}))
    record.with_suffix(".held").write_text("".join(json.dumps(line) + "\n" for line in held))


def write_events(attempt, *events):
    with open(attempt / "events.jsonl", "a") as file:
        file.writelines(json.dumps(event) + "\n" for event in events)


def look(follower) -> str:
    follower.look()
    return follower.describe()


def test_a_run_waits_starts_and_trains(folder):
    follower = RunFollower(RUN, is_queued=False)
    assert look(follower) == STARTS
    attempt = write_attempt(folder)
    write_job(folder, attempt)
    assert look(follower) == WAITS and not follower.is_started
    write_job(folder, attempt, {"since": 1.0})
    assert look(follower) == STARTS and follower.is_started
    write_events(attempt, WINDOW | {"phase": "compile", "first_step": 1})
    assert look(follower) == "epoch 1 of 12, loss 0.5"
    write_events(attempt, *(WINDOW | {"phase": "train", "first_step": step, "epoch": 2} for step in (6, 11)))
    assert look(follower) == "epoch 2 of 12, 1,280 images/s, loss 0.5", "10 steps of 128 images in a second"


def test_a_job_of_slurm_is_in_the_queue_until_it_has_an_attempt(folder):
    follower = RunFollower(RUN, is_queued=True)
    assert look(follower) == IN_QUEUE and not follower.is_started
    write_attempt(folder)
    assert look(follower) == STARTS and follower.is_started


def test_a_line_that_is_not_complete_is_read_later(folder):
    attempt, follower = write_attempt(folder, steps=40), RunFollower(RUN, is_queued=True)
    line = json.dumps(WINDOW | {"phase": "train", "first_step": 1}) + "\n"
    (attempt / "events.jsonl").write_text(line[:30])
    assert look(follower) == STARTS
    (attempt / "events.jsonl").write_text(line)
    assert look(follower) == look(follower) == "step 5 of 40, 1,280 images/s, loss 0.5"


def test_the_attempt_that_goes_on_is_followed(folder):
    write_events(write_attempt(folder, "20260101T000000-7", "crashed"), WINDOW | {"phase": "train", "first_step": 90})
    follower = RunFollower(RUN, is_queued=True)
    assert look(follower) == IN_QUEUE
    write_events(write_attempt(folder, "20260102T000000-8"), WINDOW | {"phase": "warmup", "first_step": 1})
    assert look(follower) == "epoch 1 of 12, loss 0.5"


def test_a_program_has_its_unit_and_the_metrics_that_it_reports(folder):
    attempt = write_attempt(folder, program={}, epochs=None)
    write_events(attempt, WINDOW | {"phase": "train", "first_step": 1, "samples": 50, "epoch": None})
    follower = RunFollower(RUN, is_queued=True, unit="tokens")
    assert look(follower) == "step 5, 100 tokens/s, loss 0.5"
    write_events(attempt, {"event": "evaluation", "epoch": 1, "metric": {"accuracy": 0.25}})
    assert look(follower) == "epoch 1, 100 tokens/s, accuracy 0.25"


def write_run(folder, status="completed", reason="", **spec):
    run = folder / "results" / "runs" / RUN
    run.mkdir(parents=True)
    record = {"status": status, "reason": reason, "wall_time_s": 12.5, "spec": {"global_batch_size": 128} | spec}
    (run / "run.json").write_text(json.dumps(record))
    (run / "events.jsonl").write_text(json.dumps(WINDOW | {"phase": "train", "first_step": 1}) + "\n")
    ranks = np.array([[3, 3, 3, 3], [0, 0, 0, 1]], np.uint16)
    np.savez(run / "predictions.npz", epoch=[1, 2], rank=ranks, loss=np.zeros((2, 4), np.float32))


def test_a_completed_run_has_its_rate_and_the_quality_of_its_last_evaluation(folder):
    write_run(folder)
    ended = read_ended_run(RUN, "accuracy")
    assert ended.is_completed and ended.seconds == 12.5
    assert ended.words == "completed, 1,280 images/s, accuracy 0.75"
    assert "1,280 frames/s" in read_ended_run(RUN, "accuracy", "frames").words


def test_a_run_without_a_result_has_its_reason(folder):
    write_run(folder, "out_of_memory", "8 GiB asked for")
    ended = read_ended_run(RUN, "accuracy")
    assert (ended.is_completed, ended.words) == (False, "out_of_memory: 8 GiB asked for")
