"""
Measure the cost of the shared loader beyond its decoder, and compare it with each framework's own loader.

Images of 264x264 (drawn like radiographs, or those of --images) are read as JPEG, PNG and arrays, gray and RGB. Each is
moved by up to 20 pixels, and flipped or not. Nothing is trained. Rates are images per second of processor time of all
threads and processes of a loader, so that other work on the machine has little effect. There are four comparisons; in
each, both sides take turns on the same cores:

bare    the shared loader with one worker against a bare loop over the same files that opens, decodes with the fastest
        library, moves and flips images into one reused batch. Arrays are compared with these changes and without.
two     two processes with the shared loader at the same time, each on a core of its own, against one process; and two
        bare copies against one, which shows the limit that the memory of the machine sets for two cores.
native  every framework's own loader against the shared loader with the same number of workers on the same cores, in the
        framework's environment. The pixels of the first batch are compared too.
small   images of 32x32x3 from arrays, flipped and moved by up to 4 pixels: the shared loader with two threads against
        one in one process, by wall time on two cores that have nothing else to do; and with one thread against a loop
        that changes one image after the other.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

from reporting import LIBRARY, ROOT, write_benchmark

# isort: split
from bare_loading import (
    BATCH_SIZE,
    DECODERS,
    NUM_IMAGES,
    PADDING,
    SIDE,
    bare_files,
    bare_loop,
    copy_changed,
    copy_plainly,
)
from environments import build, read_python, run_script
from howmanygpus.measure.host.processes import KEEP_FREED_MEMORY, list_cores
from howmanygpus.measure.input.batches import TrainingBatches
from howmanygpus.measure.input.prepared import PreparedData, open_data
from howmanygpus.measure.input.writing import write_data
from howmanygpus.measure.spec import RunSpec
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.study.loaders import NATIVE_LOADERS
from howmanygpus.study.runs import Run, complete_spec
from small_images import compare_small_images, rate_of_turn

FORMS = ("jpeg", "png", "arrays")
USERS = {
    **{"torch.loader": "pytorch_ddp", "keras.tf_data": "tensorflow_mirrored", "keras.loader": "keras_mirrored"},
    **{"gluon.loader": "mxnet_gluon", "chainer.loader": "chainer_mn"},
}
"""A framework for each loader, in whose environment the loader is measured."""


def draw_radiograph(random: np.random.Generator, channels: int) -> np.ndarray:
    """Draw structures of several sizes and the noise of a detector."""
    image = np.full((SIDE, SIDE, channels), 120.0)
    for cells in (4, 12, 40):
        coarse = random.normal(0, 160 / cells**0.7, (cells, cells, channels)).astype(np.float32)
        image += cv2.resize(coarse, (SIDE, SIDE), interpolation=cv2.INTER_CUBIC).reshape(image.shape)
    return np.clip(image + random.normal(0, 2.5, image.shape), 0, 255).astype(np.uint8)


def read_real(path: Path, channels: int) -> np.ndarray:
    with Image.open(path) as image:
        fitted = image.convert("L" if channels == 1 else "RGB").resize((SIDE, SIDE), Image.Resampling.LANCZOS)
        return np.asarray(fitted).reshape(SIDE, SIDE, channels)


def prepare(folder: Path, channels: int, real: list[Path]) -> None:
    """Write the images as arrays, PNG and JPEG. If there are only a few real images, they are repeated."""
    random = np.random.default_rng(channels)
    drawn = [read_real(path, channels) for path in real[:NUM_IMAGES]]
    drawn = drawn or [draw_radiograph(random, channels) for _ in range(NUM_IMAGES)]
    images = np.stack([drawn[i % len(drawn)] for i in range(NUM_IMAGES)])
    labels = np.arange(NUM_IMAGES, dtype=np.int32) % 10
    statistics_of_channels = {"channel_mean": (127.0,) * channels, "channel_std": (64.0,) * channels}
    data = PreparedData(images, labels, images[:8], labels[:8], num_classes=10, **statistics_of_channels)
    write_data(folder / "arrays", data)
    for form in ("png", "jpeg"):
        options = ["--arrays", str(folder / "arrays"), "--form", form, "--threads", "2"]
        run_script("prepare_images", *options, "--folder", str(folder / form))


def make_spec(data_dir: Path, framework: str, form: str, **settings) -> RunSpec:
    run = Run.from_path(f"loader/{framework}/base/{form}_fp32_cpu_gpus1_batch{BATCH_SIZE}_repeat1")
    changes = {"random_flip": True, "random_crop_padding": PADDING, "steps": 10**6}
    given = {"dataset": "drawn", "model": "small_cnn", **changes, **settings}
    return RunSpec.from_dict(complete_spec(run, given, str(data_dir), ""))


def compare_with_bare(folder: Path, form: str, channels: int, options) -> list[dict]:
    """Compare the shared loader with one worker and bare loops, in this process."""
    data, rows = open_data(folder / form), []
    unchanged = {"random_flip": False, "random_crop_padding": 0}
    if form == "arrays":
        images = data.train_images.view(np.ndarray)
        loops = [("copy", bare_loop(data, images.__getitem__, copy_plainly), unchanged)]
        loops += [("copy, move, flip", bare_loop(data, images.__getitem__, copy_changed), {})]
    else:
        decoders = {name: bare_files(data, decode) for name, decode in DECODERS[form].items()}
        best = max(decoders, key=lambda name: rate_of_turn(decoders[name], options.seconds))
        loops = [(f"{best}, move, flip", decoders[best], {})]
    for name, bare, settings in loops:
        spec = make_spec(folder / form, "pytorch_ddp", form, **settings)
        shared = iter(TrainingBatches(spec, data, 0, 1))
        pairs = [tuple(rate_of_turn(each, options.seconds) for each in (shared, bare)) for _ in range(options.pairs)]
        rows.append(describe(f"bare: {name}", form, channels, "shared", 1, pairs))
    return rows


def rate_alone(way: str, folder: Path, form: str, core: int, seconds: float) -> float:
    """Return the rate of the shared loader, or of a bare copy out of the memory map, in a process of its own."""
    os.sched_setaffinity(0, [core])
    data = open_data(folder / form)
    if way == "shared":
        batches = iter(TrainingBatches(make_spec(folder / form, "pytorch_ddp", form), data, 0, 1))
    else:
        batches = bare_loop(data, data.train_images.view(np.ndarray).__getitem__, copy_plainly)
    next(batches)
    return rate_of_turn(batches, seconds)


def compare_two_with_one(folder: Path, form: str, channels: int, cores: list[int], options) -> list[dict]:
    pairs = {"shared": []} | ({"bare copy": []} if form == "arrays" else {})
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as processes:
        list(processes.map(abs, range(4)))
        for turn in range(options.pairs):
            for way, seen in pairs.items():
                alone = processes.submit(rate_alone, way, folder, form, cores[turn % 2], options.seconds).result()
                both = [processes.submit(rate_alone, way, folder, form, core, options.seconds) for core in cores]
                seen.append((sum(future.result() for future in both), alone))
    return [describe("one process", form, channels, f"{way} in two processes", 1, pairs[way]) for way in pairs]


def feed(python: str, spec: RunSpec, folder: Path, cores: list[int], seconds: float) -> tuple[dict, np.ndarray]:
    """Run feed.py for one loader in its framework's environment; returns its output and the first batch."""
    spec_file, first_batch = folder / "spec.json", folder / "first_batch.npy"
    spec_file.write_text(json.dumps(spec.to_dict()))
    command = [python, str(ROOT / "benchmarks" / "feed.py"), "--spec", str(spec_file), "--seconds", str(seconds)]
    environment = os.environ | KEEP_FREED_MEMORY | {"PYTHONPATH": str(LIBRARY), "OMP_NUM_THREADS": "1"}
    result = subprocess.run(
        [*command, "--first-batch", str(first_batch)],
        env=environment | {"TF_CPP_MIN_LOG_LEVEL": "2"},
        capture_output=True,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
    )
    if result.returncode:
        sys.exit(f"{spec.framework}, {spec.loader}:\n{result.stderr[-3000:]}")
    return json.loads(result.stdout.splitlines()[-1]), np.load(first_batch)


def compare_native(folder: Path, form: str, channels: int, loader: str, kind: str, workers: int, options) -> dict:
    """Compare a framework's own loader with the shared one, each in a process of its own."""
    framework = USERS[loader]
    python = read_python(build(FRAMEWORKS[framework].environments["cpu"], folder))
    settings = {"loader_workers": workers}
    native = make_spec(folder / form, framework, form, loader="native", loader_kind=kind, **settings)
    shared, cores = make_spec(folder / form, framework, form, **settings), list_cores()[:workers]
    pairs, first_s = [], []
    for _ in range(options.pairs):
        (told, images), (told_by_shared, shared_images) = (
            feed(python, spec, folder, cores, options.seconds) for spec in (native, shared)
        )
        pairs.append((told["images_per_s"], told_by_shared["images_per_s"]))
        first_s.append(told["first_batch_s"])
    levels = np.abs(images.astype(int) - shared_images)
    return describe("shared", form, channels, f"{loader}, {kind}", workers, pairs) | {
        "first_batch_s": statistics.median(first_s),
        "max_levels": levels.max(),
        "mean_levels": levels.mean(),
    }


def describe(against: str, input: str, channels: int, what: str, workers: int, pairs: list) -> dict:
    """Return one row: medians of both rates, and median and range of the ratios of all pairs."""
    ratios = sorted(rate / other for rate, other in pairs)
    row = {"what": what, "workers": workers, "input": input, "channels": channels, "against": against}
    row |= {"images_per_s": statistics.median(rate for rate, _ in pairs)}
    row |= {"others_images_per_s": statistics.median(other for _, other in pairs)}
    row |= {"ratio_median": statistics.median(ratios), "ratio_min": ratios[0], "ratio_max": ratios[-1]}
    print(json.dumps(row), file=sys.stderr)
    return row | {"pairs": len(ratios)}


def measure(folder: Path, channels: int, form: str, options) -> list[dict]:
    """Return all rows for one form of images."""
    rows, allowed, cores = [], os.sched_getaffinity(0), list_cores()[:2]
    if "bare" in options.comparisons:
        os.sched_setaffinity(0, cores[-1:])
        rows += compare_with_bare(folder, form, channels, options)
        os.sched_setaffinity(0, allowed)
    if "two" in options.comparisons:
        rows += compare_two_with_one(folder, form, channels, cores, options)
    if "native" in options.comparisons:
        loaders = {name: NATIVE_LOADERS[name] for name in options.loaders if form in NATIVE_LOADERS[name].inputs}
        cells = [(name, kind, count) for name, it in loaders.items() for kind in it.kinds for count in options.workers]
        rows += [compare_native(folder, form, channels, *cell, options) for cell in cells]
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    comparisons = ("bare", "two", "native", "small")
    parser.add_argument("--comparisons", nargs="+", choices=comparisons, default=comparisons)
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=FORMS)
    parser.add_argument("--channels", nargs="+", type=int, choices=(1, 3), default=(1, 3))
    parser.add_argument("--loaders", nargs="+", choices=list(NATIVE_LOADERS), default=list(NATIVE_LOADERS))
    parser.add_argument(
        "--workers",
        nargs="+",
        type=int,
        default=[1, 2],
        help="numbers of native loaders' workers",
    )
    parser.add_argument("--small-batches", nargs="+", type=int, default=[256, 1024], help="batch sizes of `small`")
    parser.add_argument("--seconds", type=float, default=2.0, help="duration of each turn (default 2)")
    parser.add_argument("--pairs", type=int, default=5, help="number of turns of each side (default 5)")
    parser.add_argument("--images", type=Path, help="folder of real images to use instead of drawn ones")
    options = parser.parse_args()
    if os.environ.items() < (os.environ | KEEP_FREED_MEMORY).items():
        # malloc reads these variables when a process starts. Runs have them too.
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | KEEP_FREED_MEMORY)
    real = sorted(path for path in options.images.rglob("*.[jp][pn]g")) if options.images else []
    rows, allowed = [], os.sched_getaffinity(0)
    if "small" in options.comparisons:
        spec = make_spec(Path(), "pytorch_ddp", "arrays")
        rows += compare_small_images(spec, list_cores()[:2], options, describe)
        os.sched_setaffinity(0, allowed)
    with tempfile.TemporaryDirectory() as scratch:
        for channels in options.channels if set(options.comparisons) != {"small"} else ():
            folder = Path(scratch) / str(channels)
            folder.mkdir()
            prepare(folder, channels, real)
            for form in options.forms:
                rows += measure(folder, channels, form, options)
    write_benchmark("loader", rows)


if __name__ == "__main__":
    main()
