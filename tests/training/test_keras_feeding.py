"""What tf.data does to a run beside feeding it: threads that tune, and malloc told to give memory back."""

import os
import subprocess

import pytest

from project import ROOT
from trainbench.processes import KEEP_FREED_MEMORY

TUNING = """
from types import SimpleNamespace
import tensorflow as tf
from tensorflow.core.framework import dataset_options_pb2
from tensorflow.python.data.ops import multi_device_iterator_ops
from trainbench.backends import horovod_keras, keras_mirrored
from trainbench.families.keras_fit import untuned

created, create = [], multi_device_iterator_ops._create_device_dataset
multi_device_iterator_ops._create_device_dataset = lambda *given: created.append(create(*given)) or created[-1]
host = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(host, [tf.config.LogicalDeviceConfiguration()] * 2)
numbers = tf.data.Dataset.range(4).batch(2).with_options(untuned())
mirrored = SimpleNamespace(strategy=tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"]))
assert len(list(keras_mirrored.BACKEND.feed_ahead(mirrored, numbers, 2))) == 2
by_horovod = horovod_keras.BACKEND.feed_ahead(SimpleNamespace(spec=SimpleNamespace(device_kind="cpu")), numbers, 2)

# What TensorFlow's runtime knows of each; that of a data set without options is not set, and tunes.
for dataset in (numbers, by_horovod, *created):
    known = dataset_options_pb2.Options.FromString(tf.raw_ops.GetOptions(input_dataset=dataset._variant_tensor).numpy())
    print(known.autotune_options.WhichOneof("optional_enabled"), known.autotune_options.enabled)
"""


MEMORY = """
import resource
from types import SimpleNamespace
import tensorflow as tf
from trainbench.families.keras_fit import CountSteps, Feeder

SIZE = 20 * 2**20

def count_page_faults():
    b"x" * SIZE
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    b"x" * SIZE
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

loop = SimpleNamespace(clock=lambda: 0.0, host_batches=lambda: iter([0]))
feeder = Feeder(loop)
first = count_page_faults()
list(tf.data.Dataset.from_generator(feeder.batches, output_signature=tf.TensorSpec((), tf.int32)))
second = count_page_faults()
CountSteps(loop, feeder, None).on_train_batch_begin(0)
print(first, second, count_page_faults())
"""


@pytest.fixture
def run_script(environment_python):
    """A function from a script, run where Keras is, to the words that it prints."""

    def run(script):
        environment = os.environ | KEEP_FREED_MEMORY | {"PYTHONPATH": str(ROOT / "workflow" / "lib")}
        command = [environment_python("horovod-tensorflow-cpu"), "-c", script]
        result = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr[-3000:]
        return result.stdout.split()

    return run


def test_nothing_tunes_what_feeds_the_devices(run_script):
    assert run_script(TUNING) == ["enabled", "False"] * 4


def test_freed_memory_is_kept_although_tensorflow_gives_it_back(run_script):
    before, with_generator, after = map(int, run_script(MEMORY))
    assert before < 100 and after < 100
    assert with_generator > 4000, "TensorFlow leaves malloc alone: nothing needs keep_freed_memory() any more"
