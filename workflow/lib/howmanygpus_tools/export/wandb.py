"""Weights & Biases: an offline folder that `wandb sync` uploads. The study is the project, repeats share a group."""

import hashlib
from pathlib import Path
from typing import Any

import wandb


def write(records: list[dict[str, Any]], folder: Path, place: Path) -> None:
    settings = wandb.Settings(
        mode="offline",
        console="off",
        silent=True,
        disable_git=True,
        disable_code=True,
        disable_job_creation=True,
        x_disable_stats=True,
        x_disable_meta=True,
        x_disable_machine_info=True,
    )
    for record in records:
        # The same run has the same id, so that a second upload makes no second run.
        digest = hashlib.sha256(f"{record['study']}/{record['name']}@{record['started_at']}".encode()).hexdigest()
        run = wandb.init(
            project=record["study"],
            name=record["name"],
            group=record["group"],
            tags=list(dict.fromkeys(record["tags"])),
            id=digest[:16],
            config=record["config"],
            dir=str(folder),
            settings=settings,
        )
        run.define_metric("*", step_metric="epoch")
        for epoch in record["epochs"]:
            run.log({"epoch": epoch["step"], **epoch["metrics"]}, step=epoch["step"])
        run.summary.update(record["summary"] | {"status": record["status"], "started_at": record["started_at"]})
        run.finish(exit_code=0 if record["status"] == "completed" else 1)
    # They lead to where the folder is now, and it will be elsewhere.
    for link in [path for path in folder.rglob("*") if path.is_symlink()]:
        link.unlink()
