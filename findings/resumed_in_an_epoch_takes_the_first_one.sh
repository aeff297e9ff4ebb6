#!/usr/bin/env bash
# Finding:  skip_first_batches() of accelerate 1.9.0, with which a run is resumed within an epoch, takes the order of
#           epoch 0 in every epoch, also after set_epoch(2): after the first two of six batches of epoch 2 come the last
#           four of epoch 0, so that images come twice and others not at all. In 1.15.0 they are the last four of epoch
#           2.
# Packages: torch==2.13.0 numpy==2.4.6 accelerate==1.15.0 huggingface-hub==2.4.0 safetensors==0.8.0 psutil==7.2.2 pyyaml==6.0.3 packaging==26.4
# Topic:    silent changes in new releases
# Source:   accelerate/data_loader.py: the loader that skips counts its epochs anew from 0 in 1.9.0, and begins with the
#           epoch of the one that it is made from in 1.15.0. Nothing warns.
# Guess:    the rest of the epoch (confidence 95 %).
# Hurts:    runs that were resumed within an epoch, which the Trainer of transformers does by this function: with 1.9.0
#           they are not the runs that were not interrupted, and with 1.15.0 a resumed run is another one than with
#           1.9.0.
# Here:     no run is resumed; orders are Philox streams keyed by (seed, epoch)
source "$(dirname "$(realpath "$0")")/setup.sh"
"$python" -m pip install --quiet --disable-pip-version-check --no-deps --target old accelerate==1.9.0
cat > skip.py <<'P'
import sys
import warnings

if sys.argv[1] != "new":
    sys.path.insert(0, sys.argv[1])
warnings.filterwarnings("ignore")
import accelerate
import torch
from accelerate import Accelerator, DataLoaderConfiguration, skip_first_batches
from torch.utils.data import DataLoader

accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True))


def make():
    torch.manual_seed(0)
    return accelerator.prepare(DataLoader(list(range(12)), batch_size=2, shuffle=True))


def read(loader):
    return [batch.tolist() for batch in loader]


whole = make()
epochs = [read(whole) for _ in range(3)]
resumed = make()
resumed.set_epoch(2)
rest = read(skip_first_batches(resumed, 2))
which = [epoch for epoch in range(3) if epochs[epoch][2:] == rest]
print(f"accelerate {accelerate.__version__}: epoch 2 {epochs[2]}, resumed after two batches {rest}, which is of epoch {which}")
sys.exit(which != {"old": [0], "new": [2]}[sys.argv[1]])
P
status=0
for version in old new; do
    "$python" skip.py "$version" || status=1
done
exit "$status"
