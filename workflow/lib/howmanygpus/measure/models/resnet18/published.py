"""torchvision's `ResNet18_Weights.IMAGENET1K_V1`. The name of the file has the beginning of its SHA-256."""

from howmanygpus.measure.models.residual.published import to_published_residual_name

FILE = "resnet18-f37072fd.pth"
NORMALIZATION = "imagenet"
to_published_name = to_published_residual_name
