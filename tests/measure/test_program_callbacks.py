"""The callbacks for Lightning, Hugging Face's Trainer and Keras report what a loop of theirs does."""

import importlib
import json
import math
import sys
from types import ModuleType, SimpleNamespace

import pytest

from howmanygpus.measure.program.progress import Progress
from howmanygpus.measure.program.reports import parse_json
from project import ROOT

ARGS = {"process_index": 0, "fsdp": []}
NOTHING = {"should_log": False, "should_evaluate": False, "should_save": False}
MODEL = SimpleNamespace(parameters=lambda: [SimpleNamespace(numel=lambda: 12, requires_grad=True)], modules=lambda: [])
KERAS_MODEL = SimpleNamespace(trainable_weights=[SimpleNamespace(shape=(3, 4))], save=None, save_weights=None)
LOADER = ["first", "second", "third"]


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
    stand_ins["transformers"].Trainer = type("Trainer", (), {"get_train_dataloader": lambda self: LOADER})
    stand_ins["torch.nn.parallel"] = parallel = ModuleType("torch.nn.parallel")
    parallel.DistributedDataParallel = type("DistributedDataParallel", (), {"require_backward_grad_sync": True})
    for name, module in stand_ins.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "program"))
    monkeypatch.setenv("HOWMANYGPUS_REPORT", str(tmp_path / "report.jsonl"))
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.delenv("HOWMANYGPUS_CONTROL", raising=False)

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


FIRST = [("compile", 1), *[("warmup", 1)] * 4, *[("train", 1)] * 5]
EXPECTED = [*FIRST, ("train", 2), (None, {"accuracy": 0.5}), ("train", 3)]
"""The first ten steps are reported each, so that strategies can be compared."""


def test_lightning(load, tmp_path):
    callback, trainer = load("report_lightning")(every=5, accuracy="val_acc"), SimpleNamespace()
    trainer.global_rank, trainer.sanity_checking, trainer.current_epoch = 0, True, 0
    trainer.strategy, trainer.save_checkpoint = SimpleNamespace(model=MODEL), None
    trainer.global_step, trainer.callback_metrics = 0, {"val_acc": 0.1}
    callback.setup(trainer, MODEL, "fit")
    callback.on_validation_start(trainer, None)
    callback.on_validation_end(trainer, None)
    trainer.sanity_checking = False
    callback.on_train_start(trainer, MODEL)
    for step in range(1, 16):
        trainer.global_step = step
        callback.on_train_batch_end(trainer, None, {"loss": 1.0}, None, step)
        if step == 12:
            trainer.callback_metrics = {"val_acc": 0.5}
            callback.on_validation_start(trainer, None)
            callback.on_validation_end(trainer, None)
    assert read_phases(tmp_path) == EXPECTED


def test_transformers(load, tmp_path):
    callback = load("report_transformers")(every=5, accuracy="eval_accuracy")
    state, args = SimpleNamespace(global_step=0, epoch=0.0), SimpleNamespace(**ARGS)
    control = SimpleNamespace(**NOTHING)
    callback.on_init_end(args, state, control, model=MODEL)
    callback.on_train_begin(args, state, control, model=MODEL)
    for step in range(1, 16):
        state.global_step, state.epoch = step, step / 12
        callback.on_step_end(args, state, control)
        if step == 12:
            callback.on_epoch_end(args, state, control)
            callback.on_evaluate(args, state, control, metrics={"eval_accuracy": 0.5, "eval_loss": 2.0})
    assert read_phases(tmp_path) == EXPECTED


def test_keras(load, tmp_path):
    callback = load("report_keras")(every=5, accuracy="val_accuracy")
    callback.model = KERAS_MODEL
    callback.on_train_begin()
    for step in range(1, 16):
        callback.on_train_batch_end(step, {"loss": 1.0})
        if step == 12:
            callback.on_test_begin()
            callback.on_epoch_end(0, {"loss": 1.0, "val_accuracy": 0.5})
    assert read_phases(tmp_path) == EXPECTED


@pytest.mark.parametrize("library", ["lightning", "transformers", "keras"])
def test_a_loss_that_is_not_finite_is_reported(load, tmp_path, library):
    callback, loss = load(f"report_{library}")(), {"loss": float("nan")}
    if library == "lightning":
        trainer = SimpleNamespace(global_rank=0, global_step=1, strategy=SimpleNamespace(model=MODEL))
        callback.on_train_batch_end(trainer, None, loss, None, 1)
    elif library == "keras":
        callback.on_train_batch_end(0, loss)
    else:
        args, state, control = SimpleNamespace(**ARGS), SimpleNamespace(global_step=1), SimpleNamespace(**NOTHING)
        callback.on_train_begin(args, state, control, model=MODEL)
        callback.on_log(args, state, control, logs=loss)
        assert args.logging_nan_inf_filter is False, "with it, the Trainer logs 0.0"
    *_, last = (tmp_path / "report.jsonl").read_text().splitlines()
    assert math.isnan(parse_json(last, 0.0).loss)


@pytest.mark.parametrize("process", ["lightning", "transformers"])
def test_only_the_first_process_reports(load, tmp_path, process):
    callback = load(f"report_{process}")(every=1)
    if process == "lightning":
        trainer = SimpleNamespace(global_rank=1, global_step=1, strategy=SimpleNamespace(model=MODEL))
        trainer.save_checkpoint = None
        callback.on_train_start(trainer, MODEL)
        callback.on_train_batch_end(trainer, None, None, None, 0)
    else:
        state, args = SimpleNamespace(global_step=1), SimpleNamespace(**ARGS | {"process_index": 1})
        callback.on_train_begin(args, state, None, model=MODEL)
        callback.on_step_end(args, state, SimpleNamespace(**NOTHING))
    assert not (tmp_path / "report.jsonl").exists()


def test_reports_are_lines_of_json(load, tmp_path):
    callback = load("report_keras")()
    callback.model = KERAS_MODEL
    callback.on_train_begin()
    (line,) = (tmp_path / "report.jsonl").read_text().splitlines()
    assert set(json.loads(line)) == {"step", "versions", "time", "parameters"}
    assert json.loads(line)["parameters"] == 12


def hear_controls(tmp_path) -> list[str]:
    lines = (tmp_path / "report.jsonl").read_text().splitlines()
    return [report.control for line in lines if (report := parse_json(line, 0.0)).control]


class Part:
    """A module that fully_shard has wrapped."""

    def __init__(self):
        self.done = {}

    def __getattr__(self, name):
        if not name.startswith("set_"):
            raise AttributeError(name)
        return lambda value, recurse=True: self.done.update({name: (value, recurse)})


@pytest.mark.parametrize("process", ["lightning", "transformers"])
def test_callbacks_stop_the_exchange_of_a_run_without_it(load, tmp_path, monkeypatch, process):
    monkeypatch.setenv("HOWMANYGPUS_CONTROL", "no_exchange")
    callback, part = load(f"report_{process}")(), Part()
    model = SimpleNamespace(parameters=MODEL.parameters, modules=lambda: [part])
    if process == "lightning":
        trainer = SimpleNamespace(global_rank=0, strategy=SimpleNamespace(model=model), save_checkpoint=None)
        callback.on_train_start(trainer, model)
    else:
        callback.on_train_begin(SimpleNamespace(**ARGS), None, None, model=model)
    wrapped = sys.modules["torch.nn.parallel"].DistributedDataParallel()
    wrapped.require_backward_grad_sync = True
    assert not wrapped.require_backward_grad_sync, "as in no_sync(), whatever the framework sets"
    assert part.done == dict.fromkeys(
        ("set_requires_gradient_sync", "set_reshard_after_forward", "set_reshard_after_backward"), (False, False)
    )
    assert hear_controls(tmp_path) == ["no_exchange"]


class FullyShardedDataParallel:
    """A module of FSDP 1, which gathers its parameters in each step whatever it is told."""


def test_a_model_whose_exchange_cannot_be_left_out_is_none_without_it(load, tmp_path, monkeypatch):
    """Else a run with all of its exchange would be that without, and exchange would cost nothing."""
    monkeypatch.setenv("HOWMANYGPUS_CONTROL", "no_exchange")
    load("report_lightning")
    sys.modules["report_progress"].stop_exchange(SimpleNamespace(modules=lambda: [FullyShardedDataParallel()]))
    lines = (tmp_path / "report.jsonl").read_text().splitlines()
    (ended,) = [report for line in lines if (report := parse_json(line, 0.0)).status]
    assert ended.status == "unsupported" and "FSDP" in ended.reason


def test_the_trainer_gets_its_first_batch_again_and_again(load, tmp_path, monkeypatch):
    monkeypatch.setenv("HOWMANYGPUS_CONTROL", "resident_input")
    load("report_transformers")()
    loader = sys.modules["transformers"].Trainer().get_train_dataloader()
    assert list(loader) == list(loader) == ["first"] * 3 and len(loader) == 3
    assert hear_controls(tmp_path) == ["resident_input"]


def test_in_a_usual_run_nothing_is_left_out(load, tmp_path):
    load("report_transformers")()
    assert sys.modules["transformers"].Trainer().get_train_dataloader() is LOADER
    progress = sys.modules["report_progress"]
    progress.stop_exchange(MODEL)
    assert progress.resident(LOADER) is LOADER and not progress.control("no_exchange")
    assert sys.modules["torch.nn.parallel"].DistributedDataParallel.require_backward_grad_sync is True
    assert not (tmp_path / "report.jsonl").exists()


def test_only_in_control_runs_other_processes_report_each_to_a_file_of_its_own(load, tmp_path, monkeypatch):
    load("report_keras")
    progress = sys.modules["report_progress"]
    progress.report(1, step=1)
    assert not list(tmp_path.iterdir())
    monkeypatch.setenv("HOWMANYGPUS_CONTROL", "no_exchange")
    monkeypatch.setenv("SLURMD_NODENAME", "n7")
    progress.report(1, step=1)
    assert [path.name for path in tmp_path.iterdir()] == ["report.jsonl.rank1@n7"]
