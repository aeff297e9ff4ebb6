"""The frameworks' own loaders yield the same images, order, flips, crops and sizes as the shared loader."""

import functools
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from hanging import HANG_S
from helpers.processes import kill_those_left
from helpers.specs import make_spec
from howmanygpus.measure.input.batches import TrainingBatches
from howmanygpus.measure.input.prepared import open_data
from howmanygpus.measure.spec import RunSpec
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.study.invalidation.code import LIBRARY, collect_training_code, list_unmeasured
from howmanygpus.study.invalidation.syntax import read_code
from howmanygpus.study.loaders import DALI, NATIVE, NATIVE_LOADERS
from measure.launching import write_data
from project import ROOT

USERS = {
    **{"torch.loader": "pytorch_ddp", "keras.tf_data": "tensorflow_mirrored", "keras.loader": "keras_mirrored"},
    **{"gluon.loader": "mxnet_gluon", "chainer.loader": "chainer_mn", "torch.dali": "pytorch_ddp"},
}
"""One framework for each loader."""
LOAD_BATCHES = Path(__file__).with_name("load_batches.py")
KINDS = [(name, kind) for name, loader in NATIVE_LOADERS.items() for kind in loader.kinds]
FORMS = ("arrays", "png", "jpeg")
CHANNELS = (1, 3)
AUGMENTED = {"random_flip": True, "random_crop_padding": 3, "epochs": 2, "global_batch_size": 8}
CHANGES: dict[str, dict] = {
    "moved": {},
    "crop": {"crop": (15, 11), "random_crop_padding": 0},
    "padded_crop": {"crop": (15, 11)},
    "resized": {
        "random_resized_crop": {"size": (15, 11), "area": (0.08, 1.0), "aspect": (0.75, 4 / 3)},
        "random_crop_padding": 0,
    },
}
"""What differs from AUGMENTED."""
CHANNELS_OF_CHANGES = {"moved": CHANNELS, "crop": (3,), "padded_crop": (1,), "resized": (3,)}


@pytest.fixture(scope="module")
def data_dirs(kept) -> dict[tuple[str, int], Path]:
    """Return the prepared folders by form and channels."""

    def make(folder):
        for channels, shape in {1: (20, 26, 1), 3: (20, 25, 3)}.items():
            for form in FORMS:
                write_data(folder / str(channels), form, num_train=37, image_shape=shape)

    folder = kept("images-to-load", "pytorch-cpu", make)
    return {(form, channels): folder / str(channels) / form for channels in CHANNELS for form in FORMS}


def write_spec(folder: Path, data_dir: Path, loader: str, kind: str, **changes) -> RunSpec:
    framework = USERS[loader]
    names = {"framework": framework, "family": FRAMEWORKS[framework].family, "input": data_dir.name}
    own = {"loader": loader, "loader_kind": kind, "loader_workers": 2, "data_dir": str(data_dir)}
    spec = make_spec(**names, **own, **{**AUGMENTED, **changes})
    (folder / "spec.json").write_text(json.dumps(spec.to_dict()))
    return spec


def loading_environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "lib"), "TF_CPP_MIN_LOG_LEVEL": "2"}


def python_of(environment_python, loader: str) -> str:
    return environment_python(FRAMEWORKS[USERS[loader]].resolve_environment("cpu", loader))


@pytest.fixture(scope="module")
def loaded(environment_python, kept, data_dirs):
    """Return a function from a loader and its kind of workers to the folder of all that one process loaded."""

    def load(loader: str, kind: str, folder: Path) -> None:
        cases = [case[2:] for case in CASES if case[:2] == (loader, kind)]
        for form, channels, how in cases:
            (folder / f"{form}{channels}_{how}").mkdir()
            num_gpus, data_dir = 1 if channels == 1 else 2, data_dirs[form, channels]
            write_spec(folder / f"{form}{channels}_{how}", data_dir, loader, kind, num_gpus=num_gpus, **CHANGES[how])
        specs = [str(folder / f"{form}{channels}_{how}" / "spec.json") for form, channels, how in cases]
        command = [python_of(environment_python, loader), str(LOAD_BATCHES), *specs]
        result = subprocess.run(command, env=loading_environment(), capture_output=True, text=True, timeout=HANG_S)
        assert result.returncode == 0, result.stderr[-3000:]

    @functools.cache
    def get(loader: str, kind: str) -> Path:
        environment = FRAMEWORKS[USERS[loader]].resolve_environment("cpu", loader)
        return kept(f"loaded-{loader}-{kind}", environment, lambda folder: load(loader, kind, folder))

    return get


CASES = [
    (loader, kind, form, channels, how)
    for loader, kind in KINDS
    for form in FORMS
    for how in CHANGES
    for channels in CHANNELS_OF_CHANGES[how]
    if form in NATIVE_LOADERS[loader].inputs and not (how == "resized" and NATIVE_LOADERS[loader].resizes)
]


@pytest.mark.parametrize(("loader", "kind", "form", "channels", "how"), CASES)
def test_a_native_loader_yields_the_batches_of_the_shared_loader(loaded, loader, kind, form, channels, how):
    folder = loaded(loader, kind) / f"{form}{channels}_{how}"
    spec, batches = RunSpec.read(folder / "spec.json"), np.load(folder / "batches.npz")
    images, labels = batches["images"], batches["labels"]
    data = open_data(spec.data_dir, crop_size=spec.crop_size)
    expected = list(TrainingBatches(spec, data, spec.num_gpus - 1, spec.num_gpus))
    assert images.shape[2:] == (data.image_shape if how == "moved" else (15, 11, channels))
    assert images.dtype == np.uint8 and labels.dtype == np.int32
    assert labels.tolist() == [batch.tolist() for _, batch in expected]
    assert np.array_equal(images, np.stack([batch for batch, _ in expected]))


@pytest.mark.parametrize(("loader", "kind"), [case for case in KINDS if case[1] == "processes"])
def test_worker_processes_end_with_the_run(environment_python, tmp_path, data_dirs, loader, kind):
    write_spec(tmp_path, data_dirs["png", 1], loader, kind, epochs=500)
    command = [python_of(environment_python, loader), str(LOAD_BATCHES), "--wait", str(tmp_path / "spec.json")]
    said = tmp_path / "stderr.txt"
    with said.open("w") as file:
        process = subprocess.Popen(command, env=loading_environment(), stdout=subprocess.PIPE, stderr=file, text=True)
    # The line is empty if the process has ended, so that it cannot be read as a number.
    assert process.stdout.readline().strip() == str(process.pid), (process.poll(), said.read_text()[-3000:])
    deadline, workers = time.monotonic() + HANG_S, []
    while len(workers) < 3 and time.monotonic() < deadline:
        assert process.poll() is None, said.read_text()[-3000:]
        workers = psutil.Process(process.pid).children(recursive=True)
        time.sleep(0.1)
    assert len(workers) >= 3, "a server and two workers"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not kill_those_left(workers, timeout_s=HANG_S)


TRAINED = {**AUGMENTED, "input": "png", "data": {"num_train": 40}, "optimizer": {"learning_rate": 0.01}}
TRAINED |= {"crop": (5, 4), "random_crop_padding": 1}
"""The stored images are 6 pixels high and wide."""


@pytest.fixture(scope="module")
def with_the_shared_one(train_once):
    """Return a run of PyTorch on one device with the shared loader."""
    return train_once("pytorch_ddp", [TRAINED])[0]


@pytest.mark.parametrize("loader", NATIVE_LOADERS)
def test_a_run_trains_alike_with_native_and_shared_loader(train_once, monkeypatch, with_the_shared_one, loader):
    monkeypatch.chdir(ROOT)
    framework = USERS[loader]
    how = {"loader": loader, "loader_kind": NATIVE_LOADERS[loader].kinds[0], "num_gpus": 2, "prefetch": 2}
    (native,) = train_once(framework, [TRAINED | how])
    for finished in (with_the_shared_one, native):
        assert finished.exit_status == 0, finished.output[-3000:]
        assert finished.record["steps"] == 10
    for name, expected in with_the_shared_one.final_weights.items():
        assert np.allclose(native.final_weights[name], expected, rtol=1e-3, atol=1e-5), name
    assert np.allclose(native.predictions["loss"], with_the_shared_one.predictions["loss"], rtol=1e-3, atol=1e-4)
    executed = {f"{LIBRARY}/{path}" for path in native.record["code"]}
    assert f"{LIBRARY}/howmanygpus/measure/frameworks/{loader.replace('.', '/')}.py" in executed
    unmeasured = set(map(str, list_unmeasured()))
    empty = {path for path in executed if read_code(Path(path)).is_empty}
    named = DALI if loader == FRAMEWORKS[framework].dali_loader else NATIVE
    assert executed - empty - unmeasured <= set(collect_training_code(framework, "small_cnn", named))
