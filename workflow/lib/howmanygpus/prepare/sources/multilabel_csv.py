"""
Any folder of images with a table of their labels, in which an image has any number of labels.

The table is a CSV file, plain or compressed by gzip, with a header and one line per image. Columns may be separated by
commas, semicolons or tabs. One column has the labels with a separator between them. Another has the split, unless the
option `split` splits the images. The source `image_csv` is for images that have one class each.

Options, with defaults in parentheses:
folder         folder of the images
downloads      instead of `folder`: archives to fetch and extract, each {url, sha256 or md5, num_bytes}
table          path of the table, which must exist in either case, since the study is planned from it
path_column    column with the path of the image below the folder (path)
label_column   column with the labels (labels)
split_column   column with the split (split)
train, test    values of that column (train, test); images with other values are left out, and their number is reported
split          instead of the column: {test: fraction}, the part of each label's images that become test images;
               prepare/labels/splits.py describes its other keys `by` and `seed`. A pattern is looked for in the path as
               the table has it; `by` can also name a column, such as that of the patient
separator      text between two labels (|)
nothing        text of an image without labels (empty)
unknown        text before a label for which it is unknown if the image has it, such as `?` in `Mass|?Edema`; loss and
               metrics leave such a label out (null: there are none)
finding        one label, whose presence or absence becomes the class; null keeps all labels (null). Images for which it
               is unknown are left out, and their number is reported
and the options of prepare/options.py.
"""

from howmanygpus.prepare.acquire.acquisition import Acquisition, acquire_downloads
from howmanygpus.prepare.labels.findings import Findings, doubt_separator, split_text, strip_unknown
from howmanygpus.prepare.labels.rows import LabelTable, read_images
from howmanygpus.prepare.labels.splits import split_listing
from howmanygpus.prepare.options import Preparation
from howmanygpus.prepare.sources import Entry, Listing, OptionError

PREPARATION = Preparation()


def acquire(folder: str | None = None, downloads: list | None = None, **options) -> Acquisition | None:
    return acquire_downloads(folder, downloads)


def list_images(
    folder: str | None = None,
    *,
    table: str,
    downloads: list | None = None,
    path_column: str = "path",
    label_column: str = "labels",
    split_column: str = "split",
    train: str = "train",
    test: str = "test",
    split: dict | None = None,
    separator: str = "|",
    nothing: str = "",
    unknown: str | None = None,
    finding: str | None = None,
) -> Listing:
    if not separator:
        raise OptionError("separator", separator, "is empty", "give the text between two labels, such as |")
    columns = LabelTable(table, path_column, label_column, split_column, train, test, split)
    root, rows, remarks = read_images(folder, downloads, columns)
    remarks = (*remarks, *doubt_separator((row.text for row in rows), separator, nothing))
    names = {name for row in rows for name in split_text(row.text, separator, nothing)}
    known = tuple(sorted({strip_unknown(name, unknown) for name in names}))
    findings = Findings(known, separator, nothing, finding, unknown)
    kept = [row for row in rows if findings.is_known(row.text)]
    if len(kept) < len(rows):
        told = (
            f"{len(rows) - len(kept)} of {len(rows)} images left out, since it is not known whether they have {finding}"
        )
        remarks = (*remarks, told)
    entries = [Entry(row.path, row.split, findings.label(row.text), row.group) for row in kept]
    listing = Listing(root, findings.classes, entries, findings.multi_label, remarks=remarks, table=table)
    return split_listing(listing, split)
