"""
Any folder of images in a tree `split/class/file`, or in a tree `class/file`, which the option `split` splits. Classes
are the folders of the training split, in the order of their names. Every file in them is an image, also in folders
below them. What is hidden, or made by a system or a NAS such as `@eaDir` or `Thumbs.db`, is neither a class nor an
image (prepare/labels/names.py).

Options:
folder       folder that contains the two splits or, with `split`, the classes
train, test  the folders of the two splits in it; the defaults are `train` and `test`. With `split`, `train` is the
             folder of the classes if these are not in `folder` itself, and `test` is left out
split        {test: fraction}: the part of each class that becomes test images; prepare/labels/splits.py describes its
             other keys `by` and `seed`. A pattern is looked for in the path below the folder of the class
downloads    instead of `folder`: archives to fetch and extract, each {url, sha256 or md5, num_bytes}
listing      with `downloads`: a text file with the paths of the files in the archives, one per line, as `tar --list`
             prints them; the study is planned from it before anything is fetched
and the options of prepare/options.py.
"""

import posixpath
from pathlib import Path, PurePosixPath

from howmanygpus.prepare.acquire.acquisition import acquire_downloads
from howmanygpus.prepare.labels.folders import (
    CLASSES_REMEDY,
    Tree,
    describe_folder,
    describe_loose_files,
    describe_unused,
    is_split_name,
    refuse_split,
    scan_classes,
    select_classes,
)
from howmanygpus.prepare.labels.names import SkippedEntries, normalize_look
from howmanygpus.prepare.labels.splits import extract_groups, read_split, split_listing
from howmanygpus.prepare.options import Preparation
from howmanygpus.prepare.sources import Entry, Listing, OptionError, check_folder

PREPARATION = Preparation()
acquire = acquire_downloads


def list_images(
    folder: str | None = None,
    train: str | None = None,
    test: str | None = None,
    downloads: list | None = None,
    listing: str | None = None,
    split: dict | None = None,
) -> Listing:
    root, paths = Path(folder or ""), None
    if acquire(folder, downloads):
        paths = _read_listing(listing)
    else:
        if listing is not None:
            raise OptionError("listing", listing, "is given together with a folder", "leave it out")
        check_folder("folder", folder, "give a folder with the images")
    if split is not None:
        if test is not None:
            raise OptionError("test", test, "is given together with split", "leave one of them out")
        return _split_classes(root, train or "", split, paths, listing)
    return _list_splits(root, {"train": train or "train", "test": test or "test"}, paths, listing)


def _list_splits(root: Path, splits: dict[str, str], paths: list[str] | None, listing: str | None) -> Listing:
    """Return the images of a tree split/class/file. paths: paths of the listing; None to look at the folder."""
    train, test = splits["train"], splits["test"]
    if posixpath.normpath(train) == posixpath.normpath(test):
        remedy = "name another folder, or leave `test` out and split the images by `split: {test: 0.2}`"
        raise OptionError("test", test, "is the folder of the training images too", remedy)
    left_out = SkippedEntries()
    trees = {option: _read_split(root, option, name, paths, listing, left_out) for option, name in splits.items()}
    classes = tuple(sorted(trees["train"]))
    if unknown := sorted(set(trees["test"]) - set(classes)):
        raise _refuse_class(unknown[0], test, train, classes)
    entries = [
        Entry(path, split, label)
        for split, tree in trees.items()
        for label, name in enumerate(classes)
        for path in sorted(tree.get(name, []))
    ]
    remarks = left_out.describe()
    if paths is None:
        loose = (remark for folder in splits.values() for remark in describe_loose_files(root, folder))
        remarks = (*describe_unused(root, [train, test]), *loose, *remarks)
    return Listing(root, classes, entries, remarks=remarks)


def _refuse_class(name: str, test: str, train: str, classes: tuple[str, ...]) -> OptionError:
    """Return the error for a class without training images, which names a class that looks the same."""
    problem, remedy = f"has a class {name} that {train} does not have", "correct the folders"
    if same := [each for each in classes if normalize_look(each).casefold() == normalize_look(name).casefold()]:
        remedy = f"{same[0]!a} looks like {name!a}: give both one name"
    return OptionError("test", test, problem, remedy)


def _read_split(
    root: Path, option: str, folder: str, paths: list[str] | None, listing: str | None, left_out: SkippedEntries
) -> Tree:
    if paths is not None:
        return _select(paths, option, folder, listing, left_out)
    if not (root / folder).is_dir():
        raise refuse_split(root, option, folder)
    if tree := scan_classes(root, folder, left_out):
        return tree
    raise OptionError(option, folder, f"has {describe_folder(root / folder)} in {root}", CLASSES_REMEDY)


def _split_classes(root: Path, folder: str, given: dict, paths: list[str] | None, listing: str | None) -> Listing:
    """Return the images of a tree class/file, split by `split`. folder: folder of the classes, relative to `root`."""
    split, left_out = read_split(given), SkippedEntries()
    if paths is not None:
        tree = _select(paths, "train", folder, listing, left_out)
    elif (root / folder).is_dir():
        tree = scan_classes(root, folder, left_out)
    else:
        problem = f"is not a folder in {root}, which has {describe_folder(root)}"
        raise OptionError("train", folder, problem, "give the folder of the classes")
    if not tree:
        raise OptionError("folder", str(root / folder), f"has {describe_folder(root / folder)}", CLASSES_REMEDY)
    classes = tuple(sorted(tree))
    if splits := [name for name in classes if is_split_name(name)]:
        _refuse_split_twice(classes, splits, given)
    if empty := [name for name in classes if not tree[name]]:
        raise OptionError("folder", str(root / folder), f"has an empty class {empty[0]}", "add images or remove it")
    labelled = [(path, label) for label, name in enumerate(classes) for path in sorted(tree[name])]
    depth = len(Path(folder).parts) + 1
    groups = extract_groups([str(PurePosixPath(*PurePosixPath(path).parts[depth:])) for path, _ in labelled], split)
    entries = [Entry(path, "", label, group) for (path, label), group in zip(labelled, groups, strict=True)]
    loose = describe_loose_files(root, folder) if paths is None else ()
    return split_listing(Listing(root, classes, entries, remarks=(*loose, *left_out.describe())), given)


def _refuse_split_twice(classes: tuple[str, ...], splits: list[str], split: dict) -> None:
    """Raise OptionError if the folders are splits instead of classes; a class may be called `train` beside others."""
    if len(splits) > 1 or len(classes) == 1:
        remedy = "leave `split` out, or name the one to split as `train`"
        raise OptionError("split", split, f"would take the folders {', '.join(splits)} as classes", remedy)


def _read_listing(path: str | None) -> list[str]:
    if path is None or not Path(path).is_file():
        remedy = "tar --list --file ARCHIVE > LISTING writes it"
        raise OptionError("listing", path, "is not a file here, and downloads need one", remedy)
    paths = [line.removeprefix("./") for line in Path(path).read_text(encoding="utf-8").splitlines()]
    return [path for path in paths if path and not path.endswith("/")]


def _select(paths: list[str], option: str, folder: str, listing: str | None, left_out: SkippedEntries) -> Tree:
    tree = select_classes(paths, folder, listing, left_out)
    if not tree:
        remedy = "give the path of the split in the archives"
        raise OptionError(option, folder, f"is not a folder in {listing}", remedy)
    return tree
