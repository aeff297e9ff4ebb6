#!/usr/bin/env bash
# Finding:  MLflow gives an infinite metric back as 1.797e308, the largest float, from its default database; NaN stays NaN.
# Packages: mlflow==3.17.2
# Topic:    traces
# Source:   mlflow/store/tracking/sqlalchemy_store.py replaces infinities, which not every database can hold.
# Guess:    infinity comes back, as NaN does.
# Hurts:    whoever asks by isfinite() which runs diverged: a loss of 1.8e308 is finite.
# Here:     make export leaves out numbers that are not finite, and the run's status says that it diverged
source "$(dirname "$(realpath "$0")")/setup.sh"
"$python" - <<'P' 2>/dev/null
import math
import sys

import mlflow

mlflow.set_tracking_uri("sqlite:///runs.db")
with mlflow.start_run() as run:
    for step, loss in enumerate((1.0, math.inf, math.nan)):
        mlflow.log_metric("loss", loss, step=step)
losses = [metric.value for metric in mlflow.MlflowClient().get_metric_history(run.info.run_id, "loss")]
print("losses of 1, infinity and NaN as read back:", losses)
sys.exit(losses[1] != sys.float_info.max or not math.isnan(losses[2]))
P
