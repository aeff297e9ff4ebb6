"""Copies of numpy arrays on TensorFlow's devices."""

import functools

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.framework.ops import EagerTensor

from howmanygpus.measure.host.page_locked import PageLockedError, PageLockedMemory, allocate_page_locked


class Copier:
    """Puts arrays on devices; on a GPU, copies from page-locked memory.

    tf.constant copies an array to other memory of numpy, from which CUDA copies in small pieces, with a thread that
    waits for each. An EagerTensor takes the memory that it is given, and refers to the array until it is copied.
    """

    def __init__(self, is_cuda: bool):
        self._memory, self.host_memory = None, "the host is the device"
        if not is_cuda:
            return
        self.host_memory = "page-locked"
        gpu = tf.config.get_visible_devices("GPU")[0]
        memory = PageLockedMemory(functools.partial(allocate_page_locked, device=int(gpu.name.rpartition(":")[2])))
        try:
            memory.copy(np.zeros(1, np.uint8))
        except PageLockedError as error:
            self.host_memory = f"pageable: {error}"
        else:
            self._memory = memory

    def put(self, array: np.ndarray, device: str | None = None) -> tf.Tensor:
        """device: by its name in TensorFlow; None for the default one."""
        with tf.device(device):
            if self._memory is None:
                return tf.constant(array)
            return EagerTensor(self._memory.copy(array), context.context().device_name, None)
