"""How TensorFlow and Keras run the training, read back from both."""

import ctypes
import os

import keras
import tensorflow as tf

from howmanygpus.measure.frameworks.keras.loss_scaling import LossScaler
from howmanygpus.measure.host.libraries import find_loaded_library, read_cudnn_version

USES_ONEDNN = "_ZN10tensorflow12IsMKLEnabledEv"
"""tensorflow::IsMKLEnabled() in tensorflow/core/util/util.h. Python has no function for it."""


def describe_settings(model: keras.Model, optimizer: keras.optimizers.Optimizer, compiles: bool) -> dict[str, str]:
    """Return `settings` of run.schema.yaml. compiles: whether XLA compiles the step."""
    scaler = optimizer if isinstance(optimizer, LossScaler) else None
    inner = scaler.inner_optimizer if scaler else optimizer
    rule = next(each for each in type(inner).__mro__ if each.__module__.startswith("keras."))
    settings = {
        "execution": "tf.function, XLA" if compiles else "tf.function",
        "layout": f"{keras.config.image_data_format()} in the model",
        "optimizer": f"keras.optimizers.{rule.__name__}, a subclass, one update per variable in the graph",
    }
    settings |= {"loss_scaling": scaler.describe()} if scaler else {}
    gpus = tf.config.get_visible_devices("GPU")
    return settings | (describe_cuda(gpus[0]) if gpus else describe_cpu())


def describe_cuda(gpu: tf.config.PhysicalDevice) -> dict[str, str]:
    growth = tf.config.experimental.get_memory_growth(gpu)
    return {
        "autotune": "off" if os.environ.get("TF_CUDNN_USE_AUTOTUNE") == "0" else "cuDNN autotune on",
        "tf32": "on" if tf.config.experimental.tensor_float_32_execution_enabled() else "off",
        "allocator": f"TensorFlow's BFC, {'grows on demand' if growth else 'takes the memory at once'}",
        "cudnn": read_cudnn_version() or "not loaded",
    }


def describe_cpu() -> dict[str, str]:
    intra = tf.config.threading.get_intra_op_parallelism_threads()
    return {
        "allocator": "malloc",
        "onednn": "on" if uses_onednn() else "off",
        "threads": f"{intra} in an operation, {tf.config.threading.get_inter_op_parallelism_threads()} operations",
    }


def uses_onednn() -> bool:
    library = find_loaded_library("libtensorflow_framework.so")
    assert library is not None, "TensorFlow is imported, but its library is not loaded"
    function = ctypes.CDLL(library)[USES_ONEDNN]
    function.restype = ctypes.c_bool
    return bool(function())
