"""torchvision's `ResNet18_Weights.IMAGENET1K_V1`. The name of the file has the beginning of its SHA-256."""

from howmanygpus.train.models.residual.published import find_residual_name

FILE = "resnet18-f37072fd.pth"
NORMALIZATION = "imagenet"
find_name = find_residual_name
