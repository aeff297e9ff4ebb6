"""
Any folder of images with a table of their classes, in which an image has one class.

The table is a CSV file, plain or compressed by gzip, with a header and one line per image. Columns may be separated by
commas, semicolons or tabs. One column has the class, and there is any number of classes. Another has the split, unless
the option `split` splits the images.

Options, with defaults in parentheses:
folder         folder of the images
downloads      instead of `folder`: archives to fetch and extract, each {url, sha256 or md5, num_bytes}
table          path of the table, which must exist in either case, since the study is planned from it
path_column    column with the path of the image below the folder (path)
label_column   column with the class (label)
split_column   column with the split (split)
train, test    values of that column (train, test); images with other values are left out, and their number is reported
split          instead of the column: {test: fraction}, the part of each class that becomes test images;
               prepare/labels/splits.py describes its other keys `by` and `seed`. A pattern is looked for in the path as
               the table has it; `by` can also name a column, such as that of the patient
and the options of prepare/options.py.
"""

from howmanygpus.prepare.acquire.acquisition import Acquisition, acquire_downloads
from howmanygpus.prepare.labels.rows import LabelTable, read_images
from howmanygpus.prepare.labels.splits import split_listing
from howmanygpus.prepare.options import Preparation
from howmanygpus.prepare.sources import Entry, Listing, OptionError, name_some

PREPARATION = Preparation()


def acquire(folder: str | None = None, downloads: list | None = None, **options) -> Acquisition | None:
    return acquire_downloads(folder, downloads)


def list_images(
    folder: str | None = None,
    *,
    table: str,
    downloads: list | None = None,
    path_column: str = "path",
    label_column: str = "label",
    split_column: str = "split",
    train: str = "train",
    test: str = "test",
    split: dict | None = None,
) -> Listing:
    columns = LabelTable(table, path_column, label_column, split_column, train, test, split)
    root, rows, remarks = read_images(folder, downloads, columns)
    if unlabelled := [row.path for row in rows if not row.text]:
        problem = f"is empty for {len(unlabelled)} of {len(rows)} images: {name_some(unlabelled)}"
        raise OptionError("label_column", label_column, problem, "complete or remove their lines")
    classes = tuple(sorted({row.text for row in rows}))
    numbers = {name: number for number, name in enumerate(classes)}
    entries = [Entry(row.path, row.split, numbers[row.text], row.group) for row in rows]
    return split_listing(Listing(root, classes, entries, remarks=remarks, table=table), split)
