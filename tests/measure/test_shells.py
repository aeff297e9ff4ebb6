"""A shell full of settings changes no run, in any family."""

import json

import numpy as np
import pytest

from helpers.shell_variables import RUBBISH
from howmanygpus.registry import FRAMEWORKS
from measure.launching import train

FAMILIES = {
    **{"pytorch_ddp": 2, "horovod_pytorch": 2, "tensorflow_multiworker": 2, "keras_mirrored": 1, "jax_sharding": 2},
    **{"mxnet_gluon": 2, "chainer_mn": 2},
}
"""A framework of each family and kind of launcher, with its number of devices."""
KERAS = {"floatx": "float16", "epsilon": 0.001, "backend": "torch", "image_data_format": "channels_first"}
OF_LAUNCHER = {"PYTHONINSPECT", "PYTHONOPTIMIZE", "PYTHONWARNINGS", "LD_PRELOAD"}
"""Variables that would change the launcher, which the rules start without them."""
REQUEST = {"steps": 4, "epochs": None, "per_device_batch_size": 8}


def test_every_family_is_here():
    assert {FRAMEWORKS[name].family for name in FAMILIES} == {entry.family for entry in FRAMEWORKS.values()}


@pytest.mark.parametrize("framework", FAMILIES)
def test_a_run_in_a_shell_full_of_settings_is_the_same_run(
    framework, train_once, environment_python, tmp_path, monkeypatch
):
    request = REQUEST | {"num_gpus": FAMILIES[framework]}
    (clean,) = train_once(framework, [request])
    keras, temporary = tmp_path / "home" / ".keras", tmp_path / ("t" * 80)
    for folder in (keras, temporary):
        folder.mkdir(parents=True)
    (keras / "keras.json").write_text(json.dumps(KERAS))
    for name in RUBBISH.keys() - OF_LAUNCHER:
        monkeypatch.setenv(name, RUBBISH[name])
    monkeypatch.setenv("KERAS_HOME", str(keras))
    monkeypatch.setenv("TMPDIR", str(temporary))
    (tmp_path / "run").mkdir()
    ran = train(environment_python(FRAMEWORKS[framework].environments["cpu"]), tmp_path / "run", framework, **request)
    assert ran.exit_status == 0, ran.output[-3000:]
    assert ran.record["settings"] == clean.record["settings"]
    assert {"KERAS_HOME", "TMPDIR", "http_proxy"} <= {*ran.record["environment"]["left_out"]}
    for name, weights in clean.final_weights.items():
        np.testing.assert_allclose(ran.final_weights[name], weights, rtol=1e-4, atol=1e-5, err_msg=name)
