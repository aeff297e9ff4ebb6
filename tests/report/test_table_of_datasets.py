"""The table of data sets has their counts, the majority class, the split, and what preparing them found."""

import json

from helpers.specs import make_data, make_spec
from helpers.stored_runs import plan_of
from howmanygpus.measure.input.writing import write_data
from howmanygpus.prepare.checks.remarks import write_remarks
from howmanygpus.report.answer.details import describe_data
from howmanygpus.report.tables import datasets


def test_the_table_of_data_sets_has_counts_and_the_majority_class(tmp_path):
    data = make_data(num_train=40, num_test=20)
    data.train_labels[:] = [3] * 30 + [1] * 10
    data.test_labels[:] = [3] * 5 + [1] * 15
    write_data(tmp_path / "prepared", data)
    plan = plan_of(make_spec(data_dir="prepared"), make_spec(input="png", data_dir="deleted"))
    table = datasets.tabulate(plan, tmp_path).set_index("input")
    assert table.loc["arrays", ["num_train", "num_test", "height", "num_classes"]].tolist() == [40, 20, 6, 10]
    assert table.loc["arrays", "quality_of_guess"] == 0.25, "the most frequent class of the training images"
    assert table.loc["png", ["num_train", "quality_of_guess"]].isna().all()


def test_the_table_of_data_sets_has_the_split_and_the_remarks(tmp_path):
    write_data(tmp_path / "a/arrays", make_data(num_train=40, num_test=20))
    plan = plan_of(make_spec(data_dir="a/arrays"))
    assert datasets.tabulate(plan, tmp_path).loc[0, ["split", "remarks"]].tolist() == ["", ""]
    description = tmp_path / "a/arrays/dataset.json"
    split = {"test": 0.25, "by": "^(p)", "seed": 3}
    description.write_text(json.dumps(json.loads(description.read_text()) | {"split": split}))
    write_remarks(tmp_path / "a/arrays", ["two images", "one folder"])
    table = datasets.tabulate(plan, tmp_path)
    assert table.loc[0, ["split", "remarks"]].tolist() == ["25 % by ^(p), seed 3", "two images; one folder"]
    assert describe_data(table)["split"] == "25 % by ^(p), seed 3" and describe_data(table)["has_remarks"]
    assert table[["num_train_groups", "num_test_groups"]].isna().all(axis=None)
    manifest = tmp_path / "a/arrays/manifest.tsv"
    header, *lines = manifest.read_text().splitlines()
    grouped = [f"{line}\tp{'x' if 'test' in line else number % 7}" for number, line in enumerate(lines)]
    manifest.write_text("\n".join([f"{header}\tgroup", *grouped, ""]))
    table = datasets.tabulate(plan, tmp_path)
    assert table.loc[0, ["num_train_groups", "num_test_groups"]].tolist() == [7, 1]
    found = describe_data(table)
    assert (found["num_classes"], found["num_train_groups"], found["num_test_groups"]) == (10, 7, 1)
