"""tf.data's tuning threads, for whose end a run would wait up to a minute, are not started."""

import os
import subprocess

from project import ROOT

SCRIPT = """
import tensorflow as tf
from tensorflow.python.data.ops import multi_device_iterator_ops
from trainbench.backends import keras_mirrored
from trainbench.families.keras_fit import untuned

created, create = [], multi_device_iterator_ops._create_device_dataset
multi_device_iterator_ops._create_device_dataset = lambda *given: created.append(create(*given)) or created[-1]
host = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(host, [tf.config.LogicalDeviceConfiguration()] * 2)
numbers = tf.data.Dataset.range(4).batch(2).with_options(untuned())
distributed = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"]).experimental_distribute_dataset(numbers)
assert len(list(distributed)) == 2
print(*(dataset.options().autotune.enabled for dataset in [numbers, *created]))
"""


def test_nothing_tunes_what_feeds_the_devices(environment_python):
    environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "lib")}
    command = [environment_python("tensorflow-cpu"), "-c", SCRIPT]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.stdout.split() == ["False"] * 3, result.stderr[-3000:]
