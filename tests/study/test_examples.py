"""The configs in the documentation for images of one's own can be planned as they stand there."""

import inspect
import re

import pytest
import yaml

from helpers.messages import list_texts
from howmanygpus.prepare.listing import read_task_once
from howmanygpus.prepare.sources import image_csv
from howmanygpus.site.machine import Device, Machine
from howmanygpus.study.plan import Plan
from project import ROOT, study

CPU = Machine("machine.yaml", {"cpu": Device(8, 1)})


def read_example(path: str, name: str) -> dict:
    text = (ROOT / path).read_text()
    return yaml.safe_load(re.search(rf"<!-- example: {name} -->\n```yaml\n(.*?)```", text, re.DOTALL)[1])


@pytest.fixture(autouse=True)
def forget():
    read_task_once.cache_clear()


def plan(config: dict) -> Plan:
    for each in config["studies"].values():
        each["devices"] = ["cpu"]
    return Plan(config, CPU)


def test_folders_of_classes_without_a_split(tmp_path):
    for name in ("normal", "pneumonia"):
        (tmp_path / name).mkdir()
        for index in range(400):
            (tmp_path / name / f"{index}.png").touch()
    config = read_example("README.md", "unsplit")
    assert config["datasets"]["xrays"]["options"]["folder"] == "/data/xrays"
    config["datasets"]["xrays"]["options"]["folder"] = str(tmp_path)
    planned = plan(config)
    assert (
        planned.describe_data() == ["datasets.xrays: 640 training and 160 test images of 64 x 64 x 1 in 2 classes"]
        and len(planned.runs) == 4
    )


def test_the_keys_that_most_studies_need():
    planned = plan(read_example("config/README.md", "ten keys"))
    assert len(planned.runs) == 2 * 3 * 2 * 2 * 3
    assert not [run for run in planned.runs.values() if run.unsupported]


def test_the_program_of_the_first_page(tmp_path, monkeypatch):
    (tmp_path / "train.py").write_text("print('step 1, loss 2.3')\n")
    monkeypatch.chdir(tmp_path)
    planned = plan(read_example("README.md", "program"))
    assert {(run.num_gpus, run.per_device_batch_size) for run in planned.runs.values()} == {
        (1, 32),
        (1, 64),
        (2, 32),
        (2, 64),
    }


def test_a_table_of_classes(tmp_path):
    rows = [f"{index}.png,{'ab'[index % 2]},{index // 4}" for index in range(200)]
    (tmp_path / "labels.csv").write_text("\n".join(["path,label,patient", *rows]))
    (tmp_path / "0.png").touch()
    options = read_example("config/README.md", "table")["datasets"]["xrays"]
    options["options"] |= {"folder": str(tmp_path), "table": str(tmp_path / "labels.csv")}
    given = study(dataset="xrays", frameworks=["pytorch_ddp"], num_gpus=[1], per_device_batch_size=[8])
    planned = plan({"datasets": {"xrays": options}, "studies": {"s": given}})
    assert planned.describe_data() == ["datasets.xrays: 160 training and 40 test images of 64 x 64 x 1 in 2 classes"]


def test_the_columns_that_a_table_needs_stand_in_the_document(tmp_path):
    text = (ROOT / "config/README.md").read_text()
    rows = re.search(r"\| columns of `labels.csv` \|.*?\n\n", text, re.DOTALL)[0].strip().splitlines()[2:]
    defaults = {name: given.default for name, given in inspect.signature(image_csv.list_images).parameters.items()}
    columns = {option: defaults[option] for option in ("path_column", "label_column", "split_column")}
    shown = {option.strip(" `"): names for _, names, option, *_ in (row.split("|") for row in rows)}
    assert shown.keys() == columns.keys() and all(f"`{columns[option]}`" in shown[option] for option in columns)
    (tmp_path / "labels.csv").write_text(f"{','.join(columns.values())}\na.png,x,train\nb.png,y,train\nc.png,x,test\n")
    (tmp_path / "a.png").touch()
    listing = image_csv.list_images(folder=str(tmp_path), table=str(tmp_path / "labels.csv"))
    assert [entry.split for entry in listing.entries] == ["train", "train", "test"] and listing.classes == ("x", "y")


def test_findings_of_xrays(tmp_path):
    rows = [f"{index:08d}_000.png,{('Edema|Mass', 'No Finding')[index % 2]},{index}" for index in range(1, 201)]
    (tmp_path / "Data_Entry_2017_v2020.csv").write_text("\n".join(["Image Index,Finding Labels,Patient ID", *rows]))
    for row in rows:
        (tmp_path / row.partition(",")[0]).touch()
    config = read_example("config/README.md", "findings")
    assert config["datasets"]["xrays"]["options"]["folder"] == "/data/nih"
    config["datasets"]["xrays"]["options"]["folder"] = str(tmp_path)
    planned = plan(config)
    assert {cell.variation.multi_label for cell in planned.cells.values()} == {True} and len(planned.runs) == 3 * 2 * 2


def test_remarks_name_their_data_set_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for place in ("train/a", "train/b", "test/a", "val/a"):
        (tmp_path / "pets" / place).mkdir(parents=True)
        for index in range(9):
            (tmp_path / "pets" / place / f"{index}.png").touch()
    prepared = tmp_path / "results/prepared/pets/arrays"
    prepared.mkdir(parents=True)
    told = ["1 of 2 classes have no test image: b", "2 images are in several classes"]
    (prepared / "remarks.txt").write_text("\n".join(told))
    datasets = {"pets": {"source": "image_folder", "options": {"folder": "pets", "size": [8, 8]}}}
    given = study(dataset="pets", frameworks=["pytorch_ddp"], num_gpus=[1], per_device_batch_size=[4])
    remarks = list_texts(plan({"datasets": datasets, "studies": {"s": given}}).list_remarks())
    assert remarks == [f"datasets.pets: {remark}" for remark in ("1 folder of pets left out: val", *told)]
