"""
Any folder of images with a table of their labels, in which an image has any number of labels.

The table is a CSV file, plain or compressed by gzip, with one line per image. One column has the labels with a
separator between them. Another has the split, `train` or `test`; images of any other split are left out.

Options, with defaults in parentheses:
folder         folder of the images
downloads      instead of `folder`: archives to fetch and extract, each {url, sha256 or md5, num_bytes}
table          path of the table, which must exist in either case, since the study is planned from it
path_column    column with the path of the image below the folder (path)
label_column   column with the labels (labels)
split_column   column with the split (split)
separator      text between two labels (|)
nothing        text of an image without labels (empty)
finding        one label, which images have or have not, so that runs can train on it; null keeps all labels (null)
and the options of prepare/options.py.
"""

from pathlib import Path

from howmanygpus.prepare.acquire.acquisition import Acquisition, acquire_downloads
from howmanygpus.prepare.labels.findings import Findings, split_text
from howmanygpus.prepare.labels.tables import read_columns
from howmanygpus.prepare.options import Preparation
from howmanygpus.prepare.sources import Entry, Listing, OptionError, check_folder

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
    separator: str = "|",
    nothing: str = "",
    finding: str | None = None,
) -> Listing:
    root = Path(folder or "")
    if not acquire(folder, downloads):
        check_folder("folder", folder, "give a folder with the images")
    if not Path(table).is_file():
        raise OptionError("table", table, "is not a file here", "give the table of labels")
    columns = [("path_column", path_column), ("label_column", label_column), ("split_column", split_column)]
    rows = [row for row in read_columns(Path(table), "table", columns) if row[2] in ("train", "test")]
    _check_paths(table, [path for path, _, _ in rows])
    classes = tuple(sorted({name for _, text, _ in rows for name in split_text(text, separator, nothing)}))
    findings = Findings(classes, separator, nothing, finding)
    entries = [Entry(path, split, findings.label(text)) for path, text, split in rows]
    return Listing(root, findings.classes, entries, findings.multi_label)


def _check_paths(table: str, paths: list[str]) -> None:
    if len(paths) != len(set(paths)):
        twice = next(path for position, path in enumerate(paths) if path in paths[:position])
        raise OptionError("table", table, f"names {twice} twice", "keep one line for each image")
    outside = [path for path in paths if Path(path).is_absolute() or ".." in Path(path).parts]
    if outside:
        raise OptionError("table", table, f"names {outside[0]}, outside the folder", "write paths below the folder")
