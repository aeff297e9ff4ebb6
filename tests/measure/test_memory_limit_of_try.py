"""A batch that does not fit the memory of a CPU device is told from one that does, with a real framework."""

import json
import os

import pytest
from safetensors.numpy import save_file

from howmanygpus.files import sha256_of_file
from howmanygpus.measure.largest.bisecting import FITS, OUT_OF_MEMORY
from howmanygpus.measure.largest.tries import Launcher, TryData, do_try
from howmanygpus.measure.models.initialization import draw_weights
from howmanygpus.measure.models.networks import list_draws
from howmanygpus.site.jobs.endings import explain_crash
from howmanygpus.study.largest.search import complete_try
from project import ROOT

SHAPE, NUM_CLASSES = (64, 64, 3), 10
LIMIT_BYTES = 1500 * 10**6
"""Enough for PyTorch and a few images, of which each needs about 6 MB."""


@pytest.mark.parametrize(("batch", "expected"), [(8, FITS), (800, OUT_OF_MEMORY)])
def test_a_limit_of_memory_is_an_outcome(batch, expected, environment_python, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "workflow" / "lib"))
    weights = tmp_path / "weights.safetensors"
    save_file(draw_weights(list_draws("small_cnn", SHAPE, NUM_CLASSES), 1), weights)
    weights.with_suffix(".json").write_text(json.dumps({"sha256": sha256_of_file(weights)}))
    request = {"framework": "pytorch_ddp", "precision": "fp32", "device": "cpu", "settings": {"model": "small_cnn"}}
    request |= {"steps": [8, 24]}
    folder, before = tmp_path / "try", dict(os.environ)
    ended = do_try(
        Launcher(environment_python("pytorch-cpu"), "howmanygpus.measure.launch.launch", os.environ),
        lambda data: complete_try(request, batch, False, data, str(weights), {}),
        TryData(SHAPE, NUM_CLASSES, multi_label=False, images=batch, num_test=batch),
        folder,
        placement={},
        deadline_s=1200.0,
        memory_bytes=LIMIT_BYTES,
        explain=explain_crash,
    )
    assert ended.outcome == expected, ended
    assert not folder.exists() and dict(os.environ) == before
    assert ended.status == ("completed" if expected == FITS else "crashed") and ended.seconds > 0
    assert expected == FITS or "can't allocate memory" in ended.reason
