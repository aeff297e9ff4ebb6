"""Records of runs and attempts as a launcher writes them, for tests that run nothing."""

from howmanygpus.measure.spec import RunSpec

HOST = {
    **{"hostname": "h", "cpu_model": "c", "python_version": "3", "driver_version": None},
    **{"gpu_uuids": [], "git_commit": "abc"},
}
STARTED_AT = "2026-01-01T00:00:00+00:00"
SHA256 = "0" * 64
JOB = {
    **{"id": "7", "partition": "gpu", "nodes": "n1", "requested": None, "allocated": None, "restarts": 0},
    **{"exclusive": True, "started_at": 1000.0, "queue_wait_s": 90.0, "packed": False},
}
MEASURED = {
    **{"init_s": 1, "compile_s": 2, "warmup_s": 1, "measured_s": 4, "measured_steps": 20, "data_wait_s": 1},
    **{"train_s": 5, "eval_s": 3, "wall_time_s": 20, "steps": 31, "images_seen": 160},
    **{"peak_memory_bytes": 2**30, "num_processes": 1, "versions": {"torch": "2"}, "device_model": None},
    "phases_s": {"window": 7, "barrier": 0.1, "log": 0.1, "evaluation": 3},
    **{"cold_first_epoch": False, "disturbance": {"other_cpu_frac": 0.01, "other_gpu_processes": None}},
    **{"batches_ahead": 2, "host_to_device_gib_per_s": None},
}


def make_run(spec: RunSpec, status: str = "completed", /, **changes) -> dict:
    """The content of a run.json, changed by keyword."""
    record = make_attempt(spec, status, reason="", finished_at=STARTED_AT, manifest_sha256=SHA256)
    if status != "failed_parity":
        record |= {"weights_sha256": SHA256, "processes": [], "code": {"howmanygpus/files.py": SHA256}}
    return record | (MEASURED if status in ("completed", "clock_mismatch", "suspended", "diverged") else {}) | changes


def make_attempt(spec: RunSpec, status: str = "crashed", /, **changes) -> dict:
    """The content of an attempt.json, changed by keyword."""
    record = {"spec": spec.to_dict(), "status": status, "reason": f"why {status}", "pid": 1, "started_at": STARTED_AT}
    ended = {} if status == "running" else {"finished_at": STARTED_AT}
    return record | {"parity": "not_checked", "host": HOST} | ended | changes
