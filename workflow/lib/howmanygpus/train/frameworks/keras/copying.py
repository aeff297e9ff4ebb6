"""Copies of numpy arrays on TensorFlow's devices."""

import functools

import numpy as np
import tensorflow as tf

from howmanygpus.train.host.page_locked import PageLockedError, PageLockedMemory, allocate_page_locked


class Copier:
    """Puts arrays on devices; on a GPU from page-locked memory.

    tf.constant does not copy numpy's memory first, and hands it to CUDA as it is. From memory that is not page-locked
    CUDA copies in small pieces, with a thread that waits for each.
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
            return tf.constant(self._memory.copy(array) if self._memory else array)
