"""
A pipeline of NVIDIA DALI on the CPU: its threads read, decode, flip and crop, as its users write it for PyTorch.

Decoding on a GPU would take its time from the training, and gives other pixels.
"""

from collections.abc import Iterator

import numpy as np
from nvidia.dali import fn, pipeline_def, types

from howmanygpus.measure.input.batches import TrainingBatches
from howmanygpus.measure.input.image_files import ImageFiles

AHEAD = 2
"""Batches that the pipeline keeps ready, DALI's default."""
CHANNELS = {1: types.GRAY, 3: types.RGB}


class DaliBatches(TrainingBatches):
    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        height, width, channels = self.data.image_shape

        @pipeline_def(
            batch_size=self.shares.local_batch_size,
            num_threads=self.num_workers,
            device_id=None,
            prefetch_queue_depth=AHEAD,
        )
        def load():
            paths, flips, corners = fn.external_source(source=self._describe_steps(), num_outputs=3)
            # Other loaders do not turn images by what a camera wrote into them either.
            images = fn.decoders.image(fn.io.file.read(paths), output_type=CHANNELS[channels], adjust_orientation=False)
            flipped = fn.flip(images, horizontal=flips)
            return fn.slice(
                flipped, start=corners, shape=(height, width), axes=(0, 1), out_of_bounds_policy="pad", fill_values=0
            )

        pipeline, labels = load(), np.asarray(self.data.train_labels)
        pipeline.build()
        for step in range(self.num_steps):
            (images,) = pipeline.run()
            # A copy, because the pipeline uses its memory again.
            yield images.as_array(), labels[self.shares[step].samples]

    def _describe_steps(self) -> Iterator[tuple[list[np.ndarray], np.ndarray, np.ndarray]]:
        """Yield the files of each step as bytes, whether each image is flipped, and its crop's upper left corner."""
        files = self.data.train_images
        assert isinstance(files, ImageFiles), "the planner leaves other inputs out"
        for step in range(self.num_steps):
            share = self.shares[step]
            paths = [np.frombuffer(files.path(int(sample)).encode(), np.uint8) for sample in share.samples]
            changes = share.changes
            corners = np.stack([changes.top, changes.left], axis=1).astype(np.int32)
            yield paths, changes.flipped.astype(np.int32), corners


LOADER = DaliBatches
