"""Data sets that came split are prepared to the same bytes as ever, so that no run on them is done again."""

import hashlib
import os
import zlib
from pathlib import Path

import pytest

from howmanygpus.prepare.listing import read_task
from howmanygpus.prepare.merging import merge_shards
from howmanygpus.prepare.shards import prepare_shard
from howmanygpus.study.config.datasets import options_of_runs
from pictures import png_by_hand

FOLDER = [f"{split}/{name}/{index}.png" for split in ("train", "test") for name in ("cat", "dog") for index in range(3)]
TABLE = "path,labels,split\nc.png,dog|emu,train\na.png,,test\nb.png,cat,train\nd.png,emu,test\ne.png,emu,val\n"
NIH = "Image Index,Finding Labels,Patient ID\n" + "".join(
    f"{number}.png,{'Edema' if number % 2 else 'No Finding'},{number // 2}\n" for number in range(20)
)
KNOWN = {
    "image_folder": ["a62f3df8ad0f", "184ace651b58"],
    "labels": ["f4f1fb171dc5", "3ea03230cc65"],
    "finding": ["b918ff8ed993", "dd1d70248097"],
    "chestxray14": ["0eaa0a3556e8", "2d91650081cf"],
}
"""The first digits of the SHA-256 of manifest.tsv and dataset.json in each case."""


def write_images(paths: list[str]) -> None:
    """Write gray images whose bytes depend on no library's version, with fixed times."""
    for number, path in enumerate(paths):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        pixels = bytes((7 * number + 3 * place) % 256 for place in range(6))
        rows = b"\0" + pixels[:3] + b"\0" + pixels[3:]
        with open(path, "wb") as file:
            file.write(png_by_hand(3, 2, stream=zlib.compress(rows, 0)))
        os.utime(path, (1e9, 1e9))


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


LABELS = {"table": "labels.csv", "label_column": "labels", "separator": "|"}
CASES = {
    "image_folder": ("image_folder", {}),
    "labels": ("image_csv", LABELS),
    "finding": ("image_csv", LABELS | {"finding": "emu"}),
    "chestxray14": ("chestxray14", {"finding": "Edema", "size": None}),
}


@pytest.mark.parametrize("case", CASES)
def test_earlier_preparations_stay_unchanged(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source, options = CASES[case]
    write_images(FOLDER)
    write_images([f"{name}.png" for name in "abcde"])
    write_images([f"images/{number}.png" for number in range(20)])
    for name, text in (("labels.csv", TABLE), ("Data_Entry_2017_v2020.csv", NIH)):
        with open(name, "w") as file:
            file.write(text)
    options = {"folder": ".", "channels": 1, **options}
    task = read_task(source, options)
    prepare_shard(task, 0, tmp_path / "0.pixels", tmp_path / "0.tsv")
    merge_shards(task, [tmp_path / "0.pixels"], [tmp_path / "0.tsv"], tmp_path / "arrays")
    bytes_of = [digest((tmp_path / "arrays" / name).read_bytes()) for name in ("manifest.tsv", "dataset.json")]
    assert bytes_of == KNOWN[case]
    assert set(options_of_runs({"source": source, "options": options})) <= set(options), "no new option joins a run"
