"""
torch.utils.data.DataLoader: worker processes decode with Pillow and put whole batches into shared memory.

Batches are pinned for GPUs. PyTorch has no worker threads. Each worker keeps two batches ahead, PyTorch's default.
"""

from collections.abc import Iterator

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from howmanygpus.measure.input.batches import TrainingBatches
from howmanygpus.measure.input.pillow import load_image
from howmanygpus.measure.input.training_items import TrainingItems
from howmanygpus.measure.input.workers import use_clean_workers


class Images(Dataset):
    def __init__(self, items: TrainingItems):
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, position: int) -> tuple[torch.Tensor, torch.Tensor]:
        source, change, label = self.items[position]
        return torch.from_numpy(load_image(source, change, self.items.image_shape)), torch.as_tensor(label)


class TorchBatches(TrainingBatches):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        use_clean_workers(__name__)
        self._device = torch.cuda.current_device() if self.spec.device_kind == "cuda" else None

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        if self._device is not None:
            # The thread that feeds the devices iterates, and a new thread has the first device. PyTorch's thread that
            # pins memory takes over its device, for which CUDA makes a context of several hundred MiB.
            torch.cuda.set_device(self._device)
        loader = DataLoader(
            Images(TrainingItems(self)),
            batch_size=self.shares.local_batch_size,
            num_workers=self.num_workers,
            pin_memory=self._device is not None,
        )
        for images, labels in loader:
            # The arrays share the tensors' memory, so pinned memory stays pinned.
            yield images.numpy(), labels.numpy()


LOADER = TorchBatches
