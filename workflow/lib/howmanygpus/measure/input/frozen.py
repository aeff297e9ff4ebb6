"""
The loader of runs with frozen batches, which does what tf.data does in `.prefetch(2).cache().shuffle(1000)`.

The shared loader loads each batch of the first epoch once, with its changes of the images. The batches stay in the
memory of their process, and every epoch takes them from a buffer in random order (measure.input.draws). The buffer is
filled before the first step, which therefore waits for as many batches.
"""

from collections.abc import Iterator
from itertools import islice

import numpy as np

from howmanygpus.measure.input.batches import TrainingBatches
from howmanygpus.measure.input.draws import SHUFFLE_BUFFER


class FrozenBatches(TrainingBatches):
    """One process's share of every global batch. `load_steps` loads steps anew, with the same images and changes."""

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        num_loaded = min(self.steps_per_epoch, self.num_steps)
        loading, kept = self.load_steps(range(num_loaded)), list[tuple[np.ndarray, np.ndarray]]()
        places = {number: place for place, number in enumerate(self.shares.order_of_batches(1))}
        for step in range(self.num_steps):
            kept += islice(loading, max(0, min(step + SHUFFLE_BUFFER, num_loaded) - len(kept)))
            epoch, step_of_epoch = divmod(step, self.steps_per_epoch)
            yield kept[places[self.shares.order_of_batches(epoch + 1)[step_of_epoch]]]
