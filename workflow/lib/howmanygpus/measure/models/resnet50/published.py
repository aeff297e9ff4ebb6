"""torchvision's `ResNet50_Weights.IMAGENET1K_V1`. The name of the file has the beginning of its SHA-256."""

from howmanygpus.measure.models.residual.published import to_published_residual_name

FILE = "resnet50-0676ba61.pth"
NORMALIZATION = "imagenet"
to_published_name = to_published_residual_name
