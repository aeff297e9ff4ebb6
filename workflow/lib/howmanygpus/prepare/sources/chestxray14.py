"""
NIH ChestX-ray14 (Wang et al., CVPR 2017): 112,120 frontal chest X-rays of 30,805 patients, PNG, 1024x1024, mostly gray
and some RGBA, each with any of 14 findings.

The tables of the NIH can only be fetched by hand, in a browser. Put Data_Entry_2017_v2020.csv into a folder and, for
the NIH's own split, train_val_list.txt and test_list.txt. The images are taken from the same folder: from its folder
`images`, or from the archives images_001.tar.gz to images_012.tar.gz, which are then extracted into results/raw/. If
the folder has neither, `downloads` fetches the archives.

Options:
folder       the folder described above
downloads    nih: the twelve archives (42 GiB) at the NIH's addresses, with its checksums; or the archives of a mirror,
             each {url, sha256 or md5, num_bytes}
split        patients: 70, 10 and 20 % of the patients in the order of their numbers, for training, validation and test,
             so that no patient is in two splits; or nih: its two lists, the first for training, the second for test
evaluate_on  test, or validation: the images that become the test images of the arrays; the others are left out
finding      one finding, such as `Pneumonia`, whose presence or absence becomes the class; null keeps all 14
and the options of prepare/options.py, with the defaults size [264, 264] and channels 1.
"""

import os
from pathlib import Path

from howmanygpus.prepare.acquire.acquisition import Acquisition, Download, read_downloads
from howmanygpus.prepare.labels.rows import LabelParser
from howmanygpus.prepare.labels.tables import read_columns
from howmanygpus.prepare.options import Preparation
from howmanygpus.prepare.sources import Entry, Listing, OptionError, check_choice, check_folder

PREPARATION = Preparation(size=(264, 264), channels=1)
FINDINGS = (
    "Atelectasis",
    "Cardiomegaly",
    "Consolidation",
    "Edema",
    "Effusion",
    "Emphysema",
    "Fibrosis",
    "Hernia",
    "Infiltration",
    "Mass",
    "Nodule",
    "Pleural_Thickening",
    "Pneumonia",
    "Pneumothorax",
)
SEPARATOR, NOTHING = "|", "No Finding"
COLUMNS = ("Image Index", "Finding Labels", "Patient ID")
TABLES, ARCHIVES = "Data_Entry_2017*.csv*", "images_*.tar.gz"
MAX_BYTES = 60 * 2**30
"""The images take 42 GiB."""
ADDRESS = "https://nihcc.box.com/shared/static"
PUBLISHED = {
    "vfk49d74nhbxq3nqjg0900w5nvkorp5c": "fe8ed0a6961412fddcbb3603c11b3698",
    "i28rlmbvmfjbl8p2n3ril0pptcmcu9d1": "ab07a2d7cbe6f65ddd97b4ed7bde10bf",
    "f1t00wrtdk94satdfb9olcolqx20z2jp": "2301d03bde4c246388bad3876965d574",
    "0aowwzs5lhjrceb3qp67ahp0rd1l1etg": "9f1b7f5aae01b13f4bc8e2c44a4b8ef6",
    "v5e3goj22zr6h8tzualxfsqlqaygfbsn": "1861f3cd0ef7734df8104f2b0309023b",
    "asi7ikud9jwnkrnkj99jnpfkjdes7l6l": "456b53a8b351afd92a35bc41444c58c8",
    "jn1b4mw4n6lnh74ovmcjb8y48h8xj07n": "1075121ea20a137b87f290d6a4a5965e",
    "tvpxmn7qyrgl0w8wfh9kqfjskv6nmm1j": "b61f34cec3aa69f295fbb593cbd9d443",
    "upyy3ml7qdumlgk2rfcvlb9k6gvqq2pj": "442a3caa61ae9b64e61c561294d1e183",
    "l6nilvfa9cg3s28tqv1qc1olm3gnz54p": "09ec81c4c31e32858ad8cf965c494b74",
    "hhq8fkdgvcari67vfhs7ppg2w6ni4jze": "499aefc67207a5a97692424cf5dbeed5",
    "ioqwiy20ihqwyr8pf4c24eazhh281pbu": "dc9fda1757c2de0032b63347a7d2895c",
}
"""Names and MD5 of the archives 1 to 12, from the NIH's batch_download_zips.py and its list of checksums, which are
published with the archives at nihcc.app.box.com."""
BY_HAND = (
    "fetch the NIH's images_*.tar.gz (or its folder images) and Data_Entry_2017_v2020.csv from "
    "https://nihcc.app.box.com/v/ChestXray-NIHCC into one folder and give that folder as the option `folder`"
)


def acquire(folder: str, downloads: str | list | None = None, **options) -> Acquisition | None:
    """Return the archives in the folder, or else those to fetch; None if the images are extracted already."""
    root = check_folder("folder", folder, BY_HAND)
    archives = tuple(sorted(root.glob(ARCHIVES)))
    if (root / "images").is_dir() or not (archives or downloads):
        return None
    options = {"by_hand": BY_HAND, "most_bytes": MAX_BYTES}
    if archives:
        return Acquisition(archives=archives, **options)
    if downloads != "nih":
        return Acquisition(downloads=read_downloads(downloads), **options)
    fetched = [Download(f"{ADDRESS}/{name}.gz", f"md5:{md5}") for name, md5 in PUBLISHED.items()]
    return Acquisition(downloads=tuple(fetched), **options)


def list_images(
    folder: str,
    split: str = "patients",
    evaluate_on: str = "test",
    finding: str | None = None,
    downloads: str | list | None = None,
) -> Listing:
    check_choice("split", split, ("patients", "nih"))
    check_choice("evaluate_on", evaluate_on, ("test", "validation") if split == "patients" else ("test",))
    root = check_folder("folder", folder, BY_HAND)
    findings = LabelParser(FINDINGS, SEPARATOR, NOTHING, finding)
    rows = _read_table(root)
    splits = _split_by_patient(rows) if split == "patients" else _split_by_lists(root)
    paths = {} if acquire(folder, downloads) else _find_images(root)
    names = {"train": "train", evaluate_on: "test"}
    entries = []
    for image, text, _ in rows:
        if splits.get(image) in names:
            try:
                label = findings.label(text)
            except KeyError as error:
                raise OptionError("folder", folder, f"has the unknown finding {error} of {image}", BY_HAND) from None
            entries.append(Entry(paths.get(image, f"images/{image}"), names[splits[image]], label))
    return Listing(root, findings.classes, entries, findings.multi_label)


def _read_table(root: Path) -> list[tuple[str, ...]]:
    """Return image, findings and patient of every row of the NIH's table."""
    tables = sorted(root.glob(TABLES))
    if len(tables) != 1:
        problem = f"has {len(tables)} tables {TABLES}, not one"
        raise OptionError("folder", str(root), problem, BY_HAND if not tables else "move all but one away")
    return read_columns(tables[0], "folder", [("folder", name) for name in COLUMNS])


def _split_by_patient(rows: list[tuple[str, ...]]) -> dict[str, str]:
    """Return the split of each image: consecutive patients, not shuffled, each in one split."""
    patients = sorted({int(patient) for _, _, patient in rows})
    num_train, num_validation = len(patients) * 7 // 10, len(patients) // 10
    bounds = {"train": patients[:num_train], "validation": patients[num_train : num_train + num_validation]}
    split_of = {patient: split for split, chosen in bounds.items() for patient in chosen}
    return {image: split_of.get(int(patient), "test") for image, _, patient in rows}


def _split_by_lists(root: Path) -> dict[str, str]:
    splits: dict[str, str] = {}
    for split, name in (("train", "train_val_list.txt"), ("test", "test_list.txt")):
        if not (root / name).is_file():
            raise OptionError("split", "nih", f"needs {root / name}", "fetch the NIH's list, or split by patients")
        splits |= dict.fromkeys((root / name).read_text().split(), split)
    return splits


def _find_images(root: Path) -> dict[str, str]:
    """Return the path of every image below the folder: in the folder itself, in images/, or in images_*/images/."""
    folders = [root, root / "images", *sorted(root.glob("images_*/images"))]
    found: dict[str, str] = {}
    for folder in folders:
        if folder.is_dir():
            with os.scandir(folder) as entries:
                names = [entry.name for entry in entries if entry.name.endswith(".png")]
            found |= {name: str((folder / name).relative_to(root)) for name in names}
    return found
