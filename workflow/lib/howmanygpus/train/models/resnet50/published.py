"""torchvision's `ResNet50_Weights.IMAGENET1K_V1`. The name of the file has the beginning of its SHA-256."""

from howmanygpus.train.models.residual.published import find_residual_name

FILE = "resnet50-0676ba61.pth"
NORMALIZATION = "imagenet"
find_name = find_residual_name
