"""The callbacks for Lightning, Hugging Face's Trainer and Keras report what a loop of theirs does."""

import importlib
import json
import sys
from types import ModuleType, SimpleNamespace

import pytest

from howmanygpus.measure.program.progress import Progress
from howmanygpus.measure.program.reports import parse_json
from project import ROOT


@pytest.fixture
def load(monkeypatch, tmp_path):
    """Return a function that imports a callback's module beside stand-ins of its framework, which is not installed."""
    torch = ModuleType("torch")
    torch.__version__, torch.cuda = "2", SimpleNamespace(is_available=lambda: False)
    keras = ModuleType("keras")
    keras.__version__, keras.callbacks = "3", SimpleNamespace(Callback=object)
    stand_ins = {"torch": torch, "keras": keras, "lightning": ModuleType("lightning")}
    stand_ins |= {"lightning.pytorch": ModuleType("lightning.pytorch"), "transformers": ModuleType("transformers")}
    stand_ins["lightning.pytorch"].Callback = stand_ins["transformers"].TrainerCallback = object
    for name, module in stand_ins.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "program"))
    monkeypatch.setenv("HOWMANYGPUS_REPORT", str(tmp_path / "report.jsonl"))
    monkeypatch.delenv("RANK", raising=False)

    def load_callback(name):
        for module in (name, "report_progress"):
            monkeypatch.delitem(sys.modules, module, raising=False)
        return importlib.import_module(name).ReportProgress

    return load_callback


def read_phases(tmp_path) -> list[tuple]:
    """Return the phases of the events, with the steps of windows and the metrics of evaluations."""
    events: list[dict] = []
    progress = Progress(5, 8, 0.0, events.append)
    for line in (tmp_path / "report.jsonl").read_text().splitlines():
        progress.add(parse_json(line, 0.0))
    return [(event.get("phase"), event.get("num_steps") or event.get("metric")) for event in events]


EXPECTED = [("compile", 5), ("train", 5), ("train", 2), (None, {"accuracy": 0.5}), ("train", 3)]


def test_lightning(load, tmp_path):
    callback, trainer = load("report_lightning")(every=5, accuracy="val_acc"), SimpleNamespace()
    trainer.is_global_zero, trainer.sanity_checking, trainer.current_epoch = True, True, 0
    trainer.global_step, trainer.callback_metrics = 0, {"val_acc": 0.1}
    callback.on_validation_start(trainer, None)
    callback.on_validation_end(trainer, None)
    trainer.sanity_checking = False
    callback.on_train_start(trainer, None)
    for step in range(1, 16):
        trainer.global_step = step
        callback.on_train_batch_end(trainer, None, None, None, step)
        if step == 12:
            trainer.callback_metrics = {"val_acc": 0.5}
            callback.on_validation_start(trainer, None)
            callback.on_validation_end(trainer, None)
    assert read_phases(tmp_path) == EXPECTED


def test_transformers(load, tmp_path):
    callback = load("report_transformers")(every=5, accuracy="eval_accuracy")
    state = SimpleNamespace(global_step=0, epoch=0.0, is_world_process_zero=True)
    callback.on_train_begin(None, state, None)
    for step in range(1, 16):
        state.global_step, state.epoch = step, step / 12
        callback.on_step_end(None, state, SimpleNamespace(should_evaluate=False))
        if step == 12:
            callback.on_epoch_end(None, state, None)
            callback.on_evaluate(None, state, None, metrics={"eval_accuracy": 0.5, "eval_loss": 2.0})
    assert read_phases(tmp_path) == EXPECTED


def test_keras(load, tmp_path):
    callback = load("report_keras")(every=5, accuracy="val_accuracy")
    callback.on_train_begin()
    for step in range(1, 16):
        callback.on_train_batch_end(step, {"loss": 1.0})
        if step == 12:
            callback.on_test_begin()
            callback.on_epoch_end(0, {"loss": 1.0, "val_accuracy": 0.5})
    assert read_phases(tmp_path) == EXPECTED


@pytest.mark.parametrize("process", ["lightning", "transformers"])
def test_only_the_first_process_reports(load, tmp_path, process):
    callback = load(f"report_{process}")(every=1)
    if process == "lightning":
        trainer = SimpleNamespace(is_global_zero=False, global_step=1)
        callback.on_train_start(trainer, None)
        callback.on_train_batch_end(trainer, None, None, None, 0)
    else:
        state = SimpleNamespace(is_world_process_zero=False, global_step=1)
        callback.on_train_begin(None, state, None)
        callback.on_step_end(None, state, SimpleNamespace(should_evaluate=False))
    assert not (tmp_path / "report.jsonl").exists()


def test_reports_are_lines_of_json(load, tmp_path):
    load("report_keras")().on_train_begin()
    (line,) = (tmp_path / "report.jsonl").read_text().splitlines()
    assert set(json.loads(line)) == {"step", "versions", "time"}
