"""Test side effects of tf.data on a run: tuning threads, and a malloc that maps each large block anew."""

import json
import os
import subprocess

import pytest

from howmanygpus.measure.host.processes import KEEP_FREED_MEMORY
from project import ROOT

SCRIPT = """
import ctypes, json
from types import SimpleNamespace
import numpy as np
import tensorflow as tf
from tensorflow.core.framework import dataset_options_pb2
from tensorflow.python.data.ops import multi_device_iterator_ops
from howmanygpus.measure.frameworks.keras import fit_horovod as horovod_keras
from howmanygpus.measure.frameworks.keras import fit_mirrored as keras_mirrored
from howmanygpus.measure.frameworks.keras.fit import CountSteps
from howmanygpus.measure.frameworks.keras.tf_data import TfDataBatches
from howmanygpus.measure.loop.loop import TrainingLoop
from helpers.specs import make_data, make_spec

MIB = 2**20
batch = np.zeros((2, 1, 1, 1), np.uint8), np.zeros(2, np.int32)
spec = SimpleNamespace(prefetch=2, tier="best", steps=2)
loop = SimpleNamespace(spec=spec, num_steps=2, begin_step=lambda: None, resident_batch=None)
loop.iterate_handed_batches = lambda: iter([batch] * 2)
libc, fed = ctypes.CDLL(None), []

class MallInfo(ctypes.Structure):
    _fields_ = [(f"number_{i}", ctypes.c_int) for i in range(10)]

libc.mallinfo.restype = MallInfo

def is_mapped(num_mib):
    # Whether malloc maps a block that is larger than any freed before; number_3 counts mapped blocks.
    before = libc.mallinfo().number_3
    block = b"x" * (num_mib * MIB)
    return libc.mallinfo().number_3 > before

def train(backend, **own):
    # Returns what `fit` is given; `fed` gets each of its data sets.
    fitted = []
    data = SimpleNamespace(image_shape=(1, 1, 1), num_classes=2, multi_label=False)
    given = SimpleNamespace(num_processes=1, data=data, **own)
    given.spec = SimpleNamespace(global_batch_size=2, steps=2, device_kind="cpu")
    given.model = SimpleNamespace(fit=lambda dataset, callbacks, **_: fitted.extend([dataset, *callbacks]))
    given.prefetch_to_devices = lambda dataset, depth: (
        fed.append(dataset) or backend.prefetch_to_devices(given, dataset, depth)
    )
    given._arriving_batches = lambda loop: backend._arriving_batches(given, loop)
    backend.train(given, loop)
    return fitted

host = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(host, [tf.config.LogicalDeviceConfiguration()] * 2)
create = multi_device_iterator_ops._create_device_dataset
multi_device_iterator_ops._create_device_dataset = lambda *given: fed.append(create(*given)) or fed[-1]

mapped = [is_mapped(16)]
strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
dataset, count_steps = train(keras_mirrored.BACKEND, strategy=strategy)
iterator = iter(dataset)
mapped.append(is_mapped(20))
count_steps.on_train_batch_begin(0)
mapped.append(is_mapped(24))
fed.append(train(horovod_keras.BACKEND)[0])

class Batches(TfDataBatches):
    def __init__(self):
        self.spec = spec

    def build(self):
        return fed[0]

libc.mallopt(-3, MIB // 8)  # as TensorFlow does, but only once in a process
next(iter(Batches()))
mapped.append(is_mapped(28))

# What TensorFlow's runtime knows of each; that of a data set without options is not set, and tunes.
tuned = []
for dataset in fed:
    known = dataset_options_pb2.Options.FromString(tf.raw_ops.GetOptions(input_dataset=dataset._variant_tensor).numpy())
    tuned.append(known.autotune_options.WhichOneof("optional_enabled") is None or known.autotune_options.enabled)

# A loop whose clock stands still but for the loader, which takes 0.25 s a batch. Every second batch arrives ahead.
now, backend = [0.0], SimpleNamespace(rank=0, num_processes=1, start_epoch=lambda: None, wait_until_idle=lambda: None)
backend.max_over_ranks, backend.read_window_loss = lambda value: value, lambda steps: 0.5
backend.average_loss = lambda loss: loss
backend.mark_step, backend.wait_for_step, backend.read_loss_scale = lambda: None, None, lambda: None
spec = make_spec(epochs=1, warmup_steps=1, input="synthetic")
timed = TrainingLoop(spec, make_data(num_train=80), backend, np.zeros(10), None, clock=lambda: now[0])
loaded = iter(timed.training_batches)

def load_slowly():
    for batch in loaded:
        now[0] += 0.25
        yield batch

timed.host_batches = load_slowly
arriving, counting = timed.iterate_handed_batches(), CountSteps(timed, backend)
begun, begin = [], timed.begin_step
timed.begin_step = lambda: begun.append(timed.steps_done) or begin()
counting.on_epoch_begin(0)
for step in range(10):
    counting.on_train_batch_begin(step)
    if step % 2 == 0:
        next(arriving), next(arriving)
counting.on_epoch_end(0)
steps = {"begun": begun, "done": timed.steps_done, "waited_s": timed.clocks.data_wait_s}
print(json.dumps({"tuned": tuned, "mapped": mapped, "steps": steps}))
"""


@pytest.fixture(scope="module")
def seen(environment_python, kept):
    """Return the script's observations, in an environment in which both of Keras's backends can be imported."""
    environment = (
        os.environ
        | KEEP_FREED_MEMORY
        | {"PYTHONPATH": os.pathsep.join([str(ROOT / "workflow" / "lib"), str(ROOT / "tests")])}
    )

    def make(folder):
        command = [environment_python("horovod-tensorflow-cpu"), "-c", SCRIPT]
        result = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr[-3000:]
        (folder / "seen.json").write_text(result.stdout)

    return json.loads((kept("keras-feeding", "horovod-tensorflow-cpu", make) / "seen.json").read_text())


def test_no_tuning_changes_the_pipelines_that_feed_devices(seen):
    """Neither the data set that each backend gives to fit nor what Keras makes of it for the devices is tuned."""
    assert seen["tuned"] == [False] * 5


def test_freed_memory_is_kept_although_tensorflow_maps_it_anew(seen):
    before, by_tensorflow, after, after_loader = seen["mapped"]
    assert not (before or after or after_loader)
    assert by_tensorflow, "TensorFlow leaves malloc alone: nothing needs set_malloc_thresholds() any more"


def test_a_step_of_fit_waits_for_a_batch_that_comes_after_it_began(seen):
    """In the nine steps after the first, every other batch had arrived before its step began."""
    assert (seen["steps"]["done"], seen["steps"]["waited_s"]) == (10, 4 * 0.25)


def test_fit_limits_how_far_the_host_runs_ahead(seen):
    assert seen["steps"]["begun"] == list(range(10))
