#!/usr/bin/env bash
# Finding:  In a DataLoader with two worker processes, albumentations 2.0.8 augments images 0 and 1 alike, 2 and 3, and so on,
#           and each epoch as the first, with and without a seed, in Compose and alone. Persistent workers change between
#           epochs, but are alike. Without worker processes each image and epoch has its own.
# Packages: albumentations==2.0.8 torch==2.13.0 numpy==2.4.6
# Topic:    images
# Source:   albumentations/core/composition.py: Compose makes its generators when it is made, and each worker process gets
#           a copy of them as they are in the main process, where they never advance.
# Guess:    workers differ: NumPy's global generator, which had this fault, is no longer used.
# Hurts:    training with its last release: as many different augmentations as images per worker, in all epochs together.
# Here:     each image has its own augmentation, from a Philox stream keyed by epoch and image
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > augment.py <<'P'
import sys

import albumentations
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __init__(self, transform):
        self.transform = transform

    def __len__(self):
        return 8

    def __getitem__(self, index):
        """Return the same image under a random transform, as a text."""
        image = np.zeros((32, 32, 3), np.uint8)
        image[10:12, 10:12] = 255
        return self.transform(image=image)["image"].tobytes().hex()


def list_epochs(transform, workers, persistent):
    torch.manual_seed(0)
    loader = DataLoader(Images(transform), batch_size=None, num_workers=workers, persistent_workers=persistent)
    return [list(loader) for _ in range(3)]


def make():
    return albumentations.Affine(translate_px=(-8, 8), rotate=(-40, 40), p=1)


if __name__ == "__main__":
    kinds = {
        "alone": make,
        "Compose": lambda: albumentations.Compose([make()]),
        "Compose, seed": lambda: albumentations.Compose([make()], seed=7),
    }
    found = set()
    for name, kind in kinds.items():
        for workers, persistent in ((0, False), (2, False), (2, True)):
            epochs = list_epochs(kind(), workers, persistent)
            pairs = sum(first == second for epoch in epochs for first, second in zip(epoch[::2], epoch[1::2]))
            different = len({image for epoch in epochs for image in epoch})
            print(f"albumentations {albumentations.__version__}, {name}, workers {workers}, persistent {persistent}: "
                  f"{different} different of 24 images in 3 epochs, {pairs} of 12 pairs of neighbours alike")
            found.add((workers, persistent, different, pairs))
    sys.exit(found != {(0, False, 24, 0), (2, False, 4, 12), (2, True, 12, 12)})
P
NO_ALBUMENTATIONS_UPDATE=1 "$python" augment.py 2>/dev/null
