#!/usr/bin/env bash
# Finding:  ElasticTransform of torchvision moves the pixels of an image that is not square by other distances in 0.28.0
#           than in 0.23.0, with the same seed: of an image that is three times as wide as high, a third as far
#           horizontally and three times as far vertically. In 0.23.0 the wide image bends nine times as far along its
#           width as along its height. Square images are equal to the bit.
# Packages: torch==2.13.0 numpy==2.4.6 pillow==13.0.0
# Topic:    silent changes in new releases
# Source:   make_params() in torchvision/transforms/v2/_geometry.py and get_params() in
#           torchvision/transforms/transforms.py: the shift in x, a share of the width, is alpha divided by the height
#           in 0.23.0 and by the width in 0.28.0, and that in y the other way round. Nothing warns.
# Guess:    equal (confidence 95 %).
# Hurts:    comparisons of trainings with this augmentation across the two: on images that are not square it is another
#           one.
# Here:     no transform of this workflow bends images
source "$(dirname "$(realpath "$0")")/setup.sh"
for version in 0.23.0 0.28.0; do
    "$python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$version" "torchvision==$version"
done
cat > bend.py <<'P'
import importlib
import sys
from pathlib import Path
from types import ModuleType

import torch

# The transforms alone, which need no compiled part of torchvision: 0.23.0 has one for an earlier PyTorch.
package = ModuleType("torchvision")
package.__path__ = [str(Path(sys.argv[1], "torchvision").resolve())]
sys.modules["torchvision"] = package
transforms = importlib.import_module("torchvision.transforms.v2")
tv_tensors = importlib.import_module("torchvision.tv_tensors")
for height, width in ((64, 192), (96, 96)):
    image = tv_tensors.Image(torch.zeros(1, 3, height, width))
    torch.manual_seed(0)
    displacement = transforms.ElasticTransform(alpha=200.0).make_params([image])["displacement"]
    torch.save(displacement * torch.tensor([width / 2, height / 2]), f"{sys.argv[1]}-{width}.pt")
P
"$python" bend.py 0.23.0
"$python" bend.py 0.28.0
"$python" - <<'P'
import sys

import torch

(wide, square), (wide_new, square_new) = (
    [torch.load(f"{version}-{width}.pt") for width in (192, 96)] for version in ("0.23.0", "0.28.0")
)
far = {name: [round(axis, 2) for axis in pixels.abs().mean((0, 1, 2)).tolist()] for name, pixels in (("0.23.0", wide), ("0.28.0", wide_new))}
print(f"mean shift in pixels in x and y of 64 x 192 pixels {far}; squares equal: {torch.equal(square, square_new)}")
ratio = wide_new / wide
holds = torch.allclose(ratio[..., 0], torch.tensor(1 / 3)) and torch.allclose(ratio[..., 1], torch.tensor(3.0))
sys.exit(not (holds and torch.equal(square, square_new)))
P
