"""
Any folder of images with a table of their labels.

The table is a CSV file, plain or compressed by gzip, with a header and one line per image. Columns may be separated by
commas, semicolons or tabs, or by the character of a first line such as `sep=;`. One column has the class of an image
or, with the option `separator`, any number of labels. Another has the split, unless the option `split` splits the
images.

Options, with defaults in parentheses:
folder         folder of the images
downloads      instead of `folder`: archives to fetch and extract, each {url, sha256 or md5, num_bytes}
table          path of the table, which must exist in either case, since the study is planned from it
path_column    column with the path of the image below the folder (path)
label_column   column with the class or the labels (label)
split_column   column with the split (split)
train, test    values of that column (train, test); images with other values are left out, and their number is reported
split          instead of the column: {test: fraction}, the part of each class, or of each label's images, that becomes
               test images; prepare/labels/splits.py describes its other keys `by` and `seed`. A pattern is looked for
               in the path as the table has it; `by` can also name a column, such as that of the patient
separator      text between two labels, such as |; null if an image has exactly one class (null)
With a separator:
nothing        text of an image without labels (empty)
unknown        text before a label for which it is unknown if the image has it, such as `?` in `Mass|?Edema`; loss and
               metrics leave such a label out (null: there are none)
finding        one label, whose presence or absence becomes the class; null keeps all labels (null). Images for which it
               is unknown are left out, and their number is reported
and the options of prepare/options.py.
"""

from pathlib import Path

from howmanygpus.prepare.acquire.acquisition import acquire_downloads
from howmanygpus.prepare.labels.rows import (
    LabelParser,
    LabelTable,
    Row,
    read_images,
    remark_on_separator,
    split_text,
    strip_unknown,
)
from howmanygpus.prepare.labels.splits import split_listing
from howmanygpus.prepare.options import Preparation
from howmanygpus.prepare.sources import Entry, Listing, OptionError, shorten_list

PREPARATION = Preparation()
acquire = acquire_downloads


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
    separator: str | None = None,
    nothing: str = "",
    unknown: str | None = None,
    finding: str | None = None,
) -> Listing:
    if separator == "":
        raise OptionError("separator", separator, "is empty", "give the text between two labels, such as |")
    columns = LabelTable(table, path_column, label_column, split_column, train, test, split)
    root, rows, remarks = read_images(folder, downloads, columns)
    if separator is None:
        for option, value in (("nothing", nothing or None), ("unknown", unknown), ("finding", finding)):
            if value is not None:
                problem = "is for images with any number of labels"
                raise OptionError(
                    option, value, problem, 'give the text between two labels as `separator`, such as "|"'
                )
        listing = _list_classes(root, rows, label_column, remarks, table)
    else:
        listing = _list_labels(root, rows, separator, nothing, unknown, finding, remarks, table)
    return split_listing(listing, split)


def _list_classes(root: Path, rows: list[Row], label_column: str, remarks: tuple[str, ...], table: str) -> Listing:
    if unlabelled := [row.path for row in rows if not row.text]:
        problem = f"is empty for {len(unlabelled)} of {len(rows)} images: {shorten_list(unlabelled)}"
        raise OptionError("label_column", label_column, problem, "complete or remove their lines")
    classes = tuple(sorted({row.text for row in rows}))
    numbers = {name: number for number, name in enumerate(classes)}
    entries = [Entry(row.path, row.split, numbers[row.text], row.group) for row in rows]
    return Listing(root, classes, entries, remarks=remarks, table=table)


def _list_labels(
    root: Path,
    rows: list[Row],
    separator: str,
    nothing: str,
    unknown: str | None,
    finding: str | None,
    remarks: tuple[str, ...],
    table: str,
) -> Listing:
    remarks = (*remarks, *remark_on_separator((row.text for row in rows), separator, nothing))
    names = {name for row in rows for name in split_text(row.text, separator, nothing)}
    known = tuple(sorted({strip_unknown(name, unknown) for name in names}))
    findings = LabelParser(known, separator, nothing, finding, unknown)
    kept = [row for row in rows if findings.is_known(row.text)]
    if len(kept) < len(rows):
        left_out = f"{len(rows) - len(kept)} of {len(rows)} images left out"
        remarks = (*remarks, f"{left_out}, since it is not known whether they have {finding}")
    entries = [Entry(row.path, row.split, findings.label(row.text), row.group) for row in kept]
    return Listing(root, findings.classes, entries, findings.multi_label, remarks=remarks, table=table)
