"""
NIH ChestX-ray14 (Wang et al., CVPR 2017): 112,120 frontal chest X-rays of 30,805 patients, PNG, 1024x1024, gray and
partly RGBA, each with any of 14 findings.

The NIH publishes it behind pages that are made for people. Fetch into one folder the images (a folder `images`, or the
twelve archives images_001.tar.gz to images_012.tar.gz, which are then extracted into results/raw/), the table
Data_Entry_2017_v2020.csv, and for its own split train_val_list.txt and test_list.txt.

Options:
folder       that folder
split        patients: 70, 10 and 20 % of the patients in the order of their numbers, to train, to validate and to test,
             so that no patient is in two; or nih: the two lists, of which the first trains and the second tests
evaluate_on  test, or validation: what stands as test images in the arrays; the others are left out
finding      one finding, as in `Pneumonia`: images have it or not, and can be trained on; null keeps all 14
size         [264, 264], channels 1; the others are those of preparation/options.py
"""

import os
from pathlib import Path

from benchreport.datasets import Entry, Listing, OptionError, check_choice, check_folder
from benchreport.preparation.acquisition import Acquisition
from benchreport.preparation.findings import Findings
from benchreport.preparation.options import Preparation
from benchreport.preparation.tables import read_columns

PREPARATION = Preparation(size=(264, 264), channels=1)
FINDINGS = (
    *("Atelectasis", "Cardiomegaly", "Consolidation", "Edema", "Effusion", "Emphysema", "Fibrosis", "Hernia"),
    *("Infiltration", "Mass", "Nodule", "Pleural_Thickening", "Pneumonia", "Pneumothorax"),
)
SEPARATOR, NOTHING = "|", "No Finding"
COLUMNS = ("Image Index", "Finding Labels", "Patient ID")
TABLES, ARCHIVES = "Data_Entry_2017*.csv*", "images_*.tar.gz"
MOST_BYTES = 60 * 2**30
"""The images take 42 GiB."""
BY_HAND = (
    "fetch the NIH's images_*.tar.gz (or its folder images) and Data_Entry_2017_v2020.csv from "
    "https://nihcc.app.box.com/v/ChestXray-NIHCC into one folder and name that"
)


def acquire(folder: str, **options) -> Acquisition | None:
    """The archives of the folder, where its images have not been extracted."""
    root = check_folder("folder", folder, BY_HAND)
    archives = tuple(sorted(root.glob(ARCHIVES)))
    if not archives or (root / "images").is_dir():
        return None
    return Acquisition(archives=archives, by_hand=BY_HAND, most_bytes=MOST_BYTES)


def list_images(folder: str, split: str = "patients", evaluate_on: str = "test", finding: str | None = None) -> Listing:
    check_choice("split", split, ("patients", "nih"))
    check_choice("evaluate_on", evaluate_on, ("test", "validation") if split == "patients" else ("test",))
    root = check_folder("folder", folder, BY_HAND)
    findings = Findings(FINDINGS, SEPARATOR, NOTHING, finding)
    rows = _read_table(root)
    splits = _split_by_patient(rows) if split == "patients" else _split_by_lists(root)
    paths = _find_images(root)
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


def _read_table(root: Path) -> list[tuple[str, str, str]]:
    """Image, findings and patient in every row of the NIH's table."""
    tables = sorted(root.glob(TABLES))
    if len(tables) != 1:
        problem = f"has {len(tables)} tables {TABLES}, not one"
        raise OptionError("folder", str(root), problem, BY_HAND if not tables else "move all but one away")
    return read_columns(tables[0], "folder", [("folder", name) for name in COLUMNS])


def _split_by_patient(rows: list[tuple[str, str, str]]) -> dict[str, str]:
    """The protocol of the comparison of 2018: consecutive patients, neither shuffled nor cut."""
    patients = sorted({int(patient) for _, _, patient in rows})
    num_train, num_validation = len(patients) * 7 // 10, len(patients) // 10
    bounds = {"train": patients[:num_train], "validation": patients[num_train : num_train + num_validation]}
    split_of = {patient: split for split, chosen in bounds.items() for patient in chosen}
    return {image: split_of.get(int(patient), "test") for image, _, patient in rows}


def _split_by_lists(root: Path) -> dict[str, str]:
    splits = {}
    for split, name in (("train", "train_val_list.txt"), ("test", "test_list.txt")):
        if not (root / name).is_file():
            raise OptionError("split", "nih", f"needs {root / name}", "fetch the NIH's list, or split by patients")
        splits |= dict.fromkeys((root / name).read_text().split(), split)
    return splits


def _find_images(root: Path) -> dict[str, str]:
    """Path below the folder of every image that is there: in it, in images/, or in images_*/images/."""
    folders = [root, root / "images", *sorted(root.glob("images_*/images"))]
    found = {}
    for folder in folders:
        if folder.is_dir():
            with os.scandir(folder) as entries:
                names = [entry.name for entry in entries if entry.name.endswith(".png")]
            found |= {name: str((folder / name).relative_to(root)) for name in names}
    return found
