"""
Measure the cost of preparing images: a 1024x1024 gray PNG becomes a JPEG of 264x264, quality 90.

Speed: the workflow's code (header check, kornia_rs, OpenCV AREA, simplejpeg) against Pillow with LANCZOS and against
OpenCV with AREA, written as their users do. All run on one core and take turns image by image; ratios are of the CPU
time of all images. That is one function in memory. A whole preparation also reads files, hashes, checks, and writes
arrays and JPEG files: the workflow's three scripts are compared with a script for Pillow and one for OpenCV that read
and write files and do nothing else, by the CPU time of all processes from their start. Two processes at the same time
are compared with one, also by CPU time, since they wait for no lock.
Memory: the peak of preparing 10,000 images in one process and of merging them. Planning: a dry run with a data set of
112,120 files. The images are X-rays of the NIH if they are beside the checkout, and similar generated images otherwise.
"""

import argparse
import io
import json
import multiprocessing
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import yaml
from PIL import Image

from reporting import LIBRARY, ROOT, write_benchmark

# isort: split
from howmanygpus.measure.host.processes import list_cores
from howmanygpus.prepare.checks import pixels
from howmanygpus.prepare.images.decoding import decode
from howmanygpus.prepare.images.headers import read_header
from howmanygpus.prepare.images.resizing import QUALITY, encode_jpeg, resize
from howmanygpus.prepare.listing import read_task
from howmanygpus.prepare.merging import merge_shards
from howmanygpus.prepare.shards import prepare_shard
from pictures import SHARED_DATA, encode
from project import Project, study

SIZE = (264, 264)
XRAYS = SHARED_DATA / "xray" / "images"


def by_workflow(data: bytes) -> bytes:
    return encode_jpeg(resize(decode(data, 1), SIZE))


def by_pillow(data: bytes) -> bytes:
    file = io.BytesIO()
    image = Image.open(io.BytesIO(data)).convert("L").resize(SIZE, Image.Resampling.LANCZOS)
    image.save(file, "JPEG", quality=QUALITY)
    return file.getvalue()


def by_opencv(data: bytes) -> bytes:
    image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_GRAYSCALE)
    image = cv2.resize(image, SIZE[::-1], interpolation=cv2.INTER_AREA)
    return cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])[1].tobytes()


WAYS: dict[str, Callable[[bytes], bytes]] = {
    "workflow": by_workflow,
    "Pillow LANCZOS": by_pillow,
    "OpenCV AREA": by_opencv,
}


BY_PILLOW = """
import sys
from pathlib import Path
from PIL import Image
source, target = map(Path, sys.argv[1:])
for path in sorted(source.rglob("*.png")):
    image = Image.open(path).convert("L").resize((264, 264), Image.Resampling.LANCZOS)
    image.save(target / f"{path.stem}.jpg", quality=90)
"""
BY_OPENCV = """
import sys
from pathlib import Path
import cv2
cv2.setNumThreads(1)
source, target = map(Path, sys.argv[1:])
for path in sorted(source.rglob("*.png")):
    image = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
    image = cv2.resize(image, (264, 264), interpolation=cv2.INTER_AREA)
    cv2.imwrite(str(target / f"{path.stem}.jpg"), image, [cv2.IMWRITE_JPEG_QUALITY, 90])
"""
SCRIPTS = {"Pillow LANCZOS": BY_PILLOW, "OpenCV AREA": BY_OPENCV}
"""Preparations of a folder of files as users write them."""


def make_xray(seed: int) -> bytes:
    """Return a gray PNG of 1024x1024 with soft shapes and fine grain, as large as those of the NIH, about 400 kB."""
    random = np.random.default_rng(seed)
    coarse = random.integers(30, 226, (9, 9)).astype(np.float32)
    soft = cv2.resize(coarse, (1024, 1024), interpolation=cv2.INTER_CUBIC)
    grain = cv2.GaussianBlur(random.normal(0, 4, (1024, 1024)).astype(np.float32), (0, 0), 1.5) * 8
    return encode((soft + grain).clip(0, 255).astype(np.uint8))


def gather_images(folder: Path) -> tuple[list[Path], str]:
    """Return gray PNG files of 1024x1024, and a description of them."""
    if XRAYS.is_dir():
        paths = [path for path in sorted(XRAYS.iterdir()) if read_header(path.read_bytes()).kind == "gray"]
        return paths, f"{len(paths)} X-rays of the NIH"
    paths = [folder / f"{seed}.png" for seed in range(16)]
    for seed, path in enumerate(paths):
        path.write_bytes(make_xray(seed))
    return paths, f"{len(paths)} generated images"


def compare_ways(paths: list[Path], rounds: int) -> dict[str, list[float]]:
    """Return the images per CPU-second of each function and round; the functions take turns image by image."""
    images = [path.read_bytes() for path in paths]
    rates: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(rounds):
        cpu_s = dict.fromkeys(WAYS, 0.0)
        for data in images:
            for name, convert in WAYS.items():
                started = time.process_time()
                convert(data)
                cpu_s[name] += time.process_time() - started
        for name in WAYS:
            rates[name].append(len(images) / cpu_s[name])
    return rates


def _time_call(*command: str) -> float:
    """Return the CPU time of a Python process that runs a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | {"PYTHONPATH": str(LIBRARY)}
    subprocess.run([sys.executable, *command], cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _prepare_whole(tree: Path, folder: Path) -> float:
    """Return the CPU time of the workflow's scripts, which make arrays and JPEG files of a folder with one shard."""
    options = {"folder": str(tree), "size": list(SIZE), "channels": 1}
    task, shards, name = read_task("image_folder", options), folder / "shards", "shard0of1"
    assert task.num_shards == 1
    shards.mkdir(parents=True)
    given = ["--source", "image_folder", "--options", json.dumps(options), "--fingerprint"]
    files = ["--images", str(shards / f"{name}.pixels"), "--records", str(shards / f"{name}.tsv")]
    arrays = ["--folder", str(folder / "arrays")]
    calls = {
        "prepare_shard": [*given, task.fingerprint_shard(0), "--shard", "0", *files],
        "merge_shards": [*given, task.fingerprint_listing(), "--shards", str(shards), *arrays],
        "prepare_images": ["--arrays", arrays[1], "--form", "jpeg", "--threads", "4", "--folder", str(folder / "jpeg")],
    }
    return sum(_time_call(f"workflow/scripts/{script}.py", *options) for script, options in calls.items())


def compare_whole(paths: list[Path], folder: Path, count: int, pairs: int) -> dict[str, list[float]]:
    """Return the images per CPU-second of whole preparations of `count` files; they take turns."""
    places = {split: folder / "tree" / split / "xray" for split in ("train", "test")}
    for place in places.values():
        place.mkdir(parents=True)
    (places["test"] / "test.png").symlink_to(paths[0])  # no training image, of which test images may not be copies
    for index in range(count - 1):
        (places["train"] / f"{index:06d}.png").symlink_to(paths[1 + index % (len(paths) - 1)])
    rates: dict[str, list[float]] = {name: [] for name in WAYS}
    for number in range(pairs):
        rates["workflow"].append(count / _prepare_whole(folder / "tree", folder / f"workflow{number}"))
        for name, script in SCRIPTS.items():
            target = folder / f"{name}{number}"
            target.mkdir()
            rates[name].append(count / _time_call("-c", script, str(folder / "tree"), str(target)))
    return rates


def _work(core: int, paths: list[Path], seconds: float, barrier, rates) -> None:
    os.sched_setaffinity(0, [core])
    images = [path.read_bytes() for path in paths]
    by_workflow(images[0])
    barrier.wait()
    count, started, end = 0, time.process_time(), time.monotonic() + seconds
    while time.monotonic() < end:
        by_workflow(images[count % len(images)])
        count += 1
    rates.put(count / (time.process_time() - started))


def add_rates(paths: list[Path], cores: list[int], seconds: float) -> float:
    """Return the sum of the images per CPU-second of processes that run at the same time, one on each core."""
    context = multiprocessing.get_context("spawn")
    barrier, rates = context.Barrier(len(cores)), context.Queue()
    workers = [context.Process(target=_work, args=(core, paths, seconds, barrier, rates)) for core in cores]
    for worker in workers:
        worker.start()
    total = sum(rates.get() for _ in workers)
    for worker in workers:
        worker.join()
    return total


def _prepare_all(folder: str, count: int, queue) -> None:
    options = {"folder": folder, "size": list(SIZE), "channels": 1, "shard_images": count}
    pixels.TOO_MANY = 1.0  # all files are links to a few images, so that test images are training images
    task, out = read_task("image_folder", options), Path(folder).parent
    prepare_shard(task, 0, out / "0.pixels", out / "0.tsv")
    shard_gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    merge_shards(task, [out / "0.pixels"], [out / "0.tsv"], out / "arrays")
    queue.put((shard_gib, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20))


def measure_memory(paths: list[Path], folder: Path, count: int) -> tuple[float, float]:
    """Return the peak GiB of a process that prepares `count` files as one shard, and of one that also merges them."""
    for split, start, end in (("train", 0, count * 9 // 10), ("test", count * 9 // 10, count)):
        place = folder / "tree" / split / "xray"
        place.mkdir(parents=True)
        for index in range(start, end):
            (place / f"{index:06d}.png").symlink_to(paths[index % len(paths)])
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    worker = context.Process(target=_prepare_all, args=(str(folder / "tree"), count, queue))
    worker.start()
    peaks = queue.get()
    worker.join()
    return peaks


def time_planning(folder: Path, count: int) -> float:
    """Return the seconds of a dry run that plans to prepare a folder of `count` files."""
    project = Project(folder)
    for split, start, end in (("train", 0, count * 8 // 10), ("test", count * 8 // 10, count)):
        for label in range(10):
            place = folder / "many" / split / f"class{label}"
            place.mkdir(parents=True)
            for index in range(start + label, end, 10):
                (place / f"{index:06d}.png").touch()
    options = {"folder": "many", "size": list(SIZE)}
    config = {"studies": {"first": study()}, "datasets": {"many": {"source": "image_folder", "options": options}}}
    (folder / "config" / "config.yaml").write_text(yaml.safe_dump(config))
    started = time.perf_counter()
    output = project.snakemake("prepared", "--dry-run", "--quiet", "rules")
    elapsed_s = time.perf_counter() - started
    assert "prepare_shard" in output
    return elapsed_s


def ratios(rates: dict[str, list[float]], other: str) -> dict:
    values = [own / theirs for own, theirs in zip(rates["workflow"], rates[other], strict=True)]
    return {"seen": statistics.median(values), "min": min(values), "max": max(values)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="rounds over all images (default 5)")
    parser.add_argument("--seconds", type=float, default=10.0, help="duration of each turn (default 10)")
    parser.add_argument("--pairs", type=int, default=3, help="turns of all but single images (default 3)")
    parser.add_argument("--whole", type=int, default=880, help="images of a whole preparation (default 880)")
    parser.add_argument("--images", type=int, default=10_000, help="images for the peak memory (default 10000)")
    parser.add_argument("--files", type=int, default=112_120, help="number of files for the dry run (default 112120)")
    arguments = parser.parse_args()
    cv2.setNumThreads(1)
    cores, rows = list_cores()[:2], []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        paths, what = gather_images(folder)
        rates = compare_ways(paths, arguments.rounds)
        for name in WAYS:
            rows.append({"what": f"images per CPU-second, {name}, {what}", "seen": statistics.median(rates[name])})
        rows.append({"what": "over Pillow LANCZOS", **ratios(rates, "Pillow LANCZOS"), "aim": 2.3})
        rows.append({"what": "over OpenCV AREA", **ratios(rates, "OpenCV AREA"), "aim": 1.6})
        whole = compare_whole(paths, folder / "whole", arguments.whole, arguments.pairs)
        for name in WAYS:
            what = f"images per CPU-second, {name}, whole preparation of {arguments.whole} images"
            rows.append({"what": what, "seen": statistics.median(whole[name])})
        for name, aim in (("Pillow LANCZOS", 2.6), ("OpenCV AREA", 2.0)):
            rows.append({"what": f"whole preparation, over {name}", **ratios(whole, name), "aim": aim})
        if len(cores) == 2:
            gains = []
            for _ in range(arguments.pairs):
                one, two = (add_rates(paths, cores[:count], arguments.seconds) for count in (1, 2))
                gains.append(two / one)
            seen = {"seen": statistics.median(gains), "min": min(gains), "max": max(gains)}
            rows.append({"what": "two processes over one", **seen, "aim": 1.8})
        shard_gib, merge_gib = measure_memory(paths, folder, arguments.images)
        rows.append({"what": f"peak GiB, {arguments.images} images as one shard", "seen": shard_gib, "aim": 1.0})
        rows.append({"what": "peak GiB, these and their merge", "seen": merge_gib, "aim": 1.0})
        seconds = time_planning(folder / "planning", arguments.files)
        rows.append({"what": f"s, dry run with {arguments.files} files", "seen": seconds, "aim": 20.0})
    write_benchmark("prepare", rows)


if __name__ == "__main__":
    main()
