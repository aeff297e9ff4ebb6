"""Write prepared arrays as PNG or JPEG files, each image in a file of its own, with labels and a manifest."""

import argparse
from pathlib import Path

from howmanygpus.measure.input.description import SUFFIXES
from howmanygpus.prepare.image_files import prepare_images


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arrays", type=Path, required=True, help="folder of the prepared arrays")
    parser.add_argument("--form", choices=list(SUFFIXES), required=True, help="format of the files")
    parser.add_argument("--threads", type=int, default=1, help="images encoded at the same time (default 1)")
    parser.add_argument("--folder", type=Path, required=True, help="folder to write")
    arguments = parser.parse_args()
    prepare_images(arguments.arrays, arguments.form, arguments.folder, arguments.threads)


if __name__ == "__main__":
    main()
