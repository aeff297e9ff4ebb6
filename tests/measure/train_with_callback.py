"""
Train with a callback that users copy, once for each kind of run, and print what each process ended with as JSON.

    train_with_callback.py LIBRARY FOLDER [RUN ...]

LIBRARY: lightning, transformers or keras. RUN: the control run, or `usual`; its reports are in FOLDER/RUN.jsonl.
"""

import importlib
import json
import os
import sys
from pathlib import Path

EPOCHS, STEPS, BATCH = 2, 12, 4
"""Of an epoch, in which a validation and a checkpoint follow the last step."""


def train_lightning(folder: Path) -> list[float]:
    import torch
    from lightning.pytorch import LightningModule, Trainer, seed_everything
    from lightning.pytorch.callbacks import ModelCheckpoint

    ReportProgress = importlib.import_module("report_lightning").ReportProgress
    resident = importlib.import_module("report_progress").resident

    class Linear(LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(8, 1)

        def training_step(self, batch, index):
            return (self.layer(batch[0]) - batch[1]).square().mean()

        def validation_step(self, batch, index):
            self.log("val_loss", self.training_step(batch, index), sync_dist=True)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.05)

    seed_everything(1)
    count, num_processes = STEPS * BATCH, int(os.environ.get("WORLD_SIZE", "1"))
    drawn = torch.utils.data.TensorDataset(torch.randn(count * num_processes, 8), torch.randn(count * num_processes, 1))
    trainer = Trainer(
        **{"accelerator": "cpu", "devices": num_processes, "strategy": "ddp" if num_processes > 1 else "auto"},
        **{"max_epochs": EPOCHS, "logger": False, "enable_progress_bar": False, "enable_model_summary": False},
        callbacks=[ReportProgress(every=5, test_loss="val_loss"), ModelCheckpoint(folder)],
    )
    model = Linear()
    loader = torch.utils.data.DataLoader(drawn, BATCH, shuffle=True)
    trainer.fit(model, resident(loader), torch.utils.data.DataLoader(drawn, BATCH))
    return [float(value) for value in model.layer.weight.flatten()]


def train_transformers(folder: Path) -> list[float]:
    import torch
    from transformers import Trainer, TrainingArguments, set_seed

    ReportProgress = importlib.import_module("report_transformers").ReportProgress

    class Linear(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(8, 1)

        def forward(self, inputs, labels):
            made = self.layer(inputs)
            return {"loss": (made - labels).square().mean(), "logits": made}

    set_seed(1)
    count = STEPS * BATCH * int(os.environ.get("WORLD_SIZE", "1"))
    drawn = [{"inputs": torch.randn(8), "labels": torch.randn(1)} for _ in range(count)]
    arguments = TrainingArguments(
        **{"output_dir": str(folder), "per_device_train_batch_size": BATCH, "num_train_epochs": EPOCHS},
        **{"eval_strategy": "epoch", "save_strategy": "epoch", "logging_steps": 1, "use_cpu": True},
        **{"report_to": "none", "disable_tqdm": True, "learning_rate": 0.05},
    )
    model = Linear()
    callbacks = [ReportProgress(every=5, test_loss="eval_loss")]
    trainer = Trainer(model, arguments, train_dataset=drawn, eval_dataset=drawn[:8], callbacks=callbacks)
    trainer.train()
    return [float(value) for value in model.layer.weight.flatten()]


def train_keras(folder: Path) -> list[float]:
    import keras
    import numpy as np

    ReportProgress = importlib.import_module("report_keras").ReportProgress
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.05), "mse", metrics=["mae"])
    inputs, labels = np.random.randn(STEPS * BATCH, 8), np.random.randn(STEPS * BATCH, 1)
    saves = [keras.callbacks.ModelCheckpoint(folder / "model.keras")]
    saves.append(keras.callbacks.ModelCheckpoint(folder / "saved.weights.h5", save_weights_only=True))
    callbacks = [saves[0], ReportProgress(every=5, test_loss="val_loss"), saves[1]]
    options = {"batch_size": BATCH, "epochs": EPOCHS, "verbose": 0, "callbacks": callbacks}
    model.fit(inputs, labels, validation_data=(inputs, labels), **options)
    return [float(value) for value in model.get_weights()[0].flatten()]


def main() -> None:
    library, folder, ended = sys.argv[1], Path(sys.argv[2]), {}
    for run in sys.argv[3:]:
        os.environ |= {"HOWMANYGPUS_REPORT": str(folder / f"{run}.jsonl")}
        os.environ |= {"HOWMANYGPUS_CONTROL": "" if run == "usual" else run}
        for name in ("report_progress", f"report_{library}"):
            sys.modules.pop(name, None)
        ended[run] = globals()[f"train_{library}"](folder / run)
    rank = os.environ.get("RANK", "0")
    (folder / f"ended{rank}.json").write_text(json.dumps(ended))


if __name__ == "__main__":
    main()
