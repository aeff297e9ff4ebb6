"""MLflow: a file store with the study as the experiment, metrics by epoch, parameters and tags."""

import os
from pathlib import Path
from typing import Any

os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"  # MLflow prefers databases, and keeps this store as it is.

from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag

LONGEST = 6000
"""Characters of the longest parameter that MLflow takes."""
MOST = 100
"""Parameters that MLflow takes at once."""


def write(records: list[dict[str, Any]], folder: Path, place: Path) -> None:
    client = MlflowClient(tracking_uri=folder.absolute().as_uri())
    # Files of runs are where the folder will be.
    experiments = {
        study: client.create_experiment(study, artifact_location=(place.absolute() / "artifacts" / study).as_uri())
        for study in dict.fromkeys(record["study"] for record in records)
    }
    for record in records:
        end = record["started_at"] + record["wall_time_s"]
        run = client.create_run(
            experiments[record["study"]],
            start_time=as_ms(record["started_at"]),
            tags={"group": record["group"], "status": record["status"]},
            run_name=record["name"],
        ).info.run_id
        metrics = [
            Metric(name, value, as_ms(epoch["time"]), epoch["step"])
            for epoch in record["epochs"]
            for name, value in epoch["metrics"].items()
        ]
        metrics += [Metric(name, value, as_ms(end), 0) for name, value in record["summary"].items()]
        params = [Param(name, str(value)[:LONGEST]) for name, value in record["config"].items()]
        tags = [RunTag(f"tag.{number}", tag) for number, tag in enumerate(record["tags"])]
        client.log_batch(run, tags=tags)
        for first in range(0, len(params), MOST):
            client.log_batch(run, params=params[first : first + MOST])
        for first in range(0, len(metrics), 10 * MOST):
            client.log_batch(run, metrics=metrics[first : first + 10 * MOST])
        status = "FINISHED" if record["status"] == "completed" else "FAILED"
        client.set_terminated(run, status, as_ms(end))


def as_ms(seconds: float) -> int:
    return round(1000 * seconds)
