"""
`image_csv` with other defaults, for images with any number of labels.

The options are those of `image_csv`; label_column is `labels` and separator is `|` unless they are given.
"""

from functools import partial

from howmanygpus.prepare.options import Preparation
from howmanygpus.prepare.sources import image_csv

PREPARATION = Preparation()
acquire = image_csv.acquire
list_images = partial(image_csv.list_images, label_column="labels", separator="|")
