"""A table names classes and splits of images, also as Excel saves it, and what it leaves out is told."""

from collections import Counter

import pytest

from helpers.messages import says
from howmanygpus.measure.input.prepared import MISSING, open_data
from howmanygpus.prepare.listing import describe_dataset, read_task, read_task_once
from howmanygpus.prepare.merging import merge_shards
from howmanygpus.prepare.shards import prepare_shard
from howmanygpus.prepare.sources import OptionError
from pictures import encode, smooth

ROWS = [
    f"{index}.png,{('cat', 'dog', 'emu')[index % 3]},{'test' if index > 23 else 'train'},p{index // 2}"
    for index in range(30)
]
HEADER = "path,label,split,patient"


@pytest.fixture(autouse=True)
def forget():
    read_task_once.cache_clear()


def write(folder, rows=ROWS, header=HEADER, encoding="utf-8", delimiter=","):
    text = "\r\n".join([header, *rows]).replace(",", delimiter)
    (folder / "labels.csv").write_bytes(text.encode(encoding))
    (folder / "0.png").touch()
    return folder


def listing_of(folder, **options):
    given = {"folder": str(folder), "table": str(folder / "labels.csv"), "size": [8, 8], **options}
    described = describe_dataset("image_csv", given)
    listing = read_task("image_csv", given).listing
    assert described.num_train + described.num_test == len(listing.entries)
    return listing, described.remarks


def test_an_image_has_one_of_many_classes(tmp_path):
    listing, remarks = listing_of(write(tmp_path))
    assert listing.classes == ("cat", "dog", "emu") and not listing.multi_label and remarks == ()
    assert [(entry.path, entry.label, entry.split) for entry in listing.entries[22:26]] == [
        *(("22.png", 1, "train"), ("23.png", 2, "train"), ("24.png", 0, "test"), ("25.png", 1, "test")),
    ]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_table_that_excel_saved_is_read_like_any_other(tmp_path, delimiter):
    plain = listing_of(write(tmp_path))[0]
    read_task_once.cache_clear()
    assert listing_of(write(tmp_path, encoding="utf-8-sig", delimiter=delimiter))[0] == plain


@pytest.mark.parametrize("delimiter", [";", "|", "\t"])
def test_a_first_line_that_tells_excel_the_delimiter_is_no_header(tmp_path, delimiter):
    plain = listing_of(write(tmp_path))[0]
    read_task_once.cache_clear()
    write(tmp_path, header=f"sep={delimiter}\r\n{HEADER}", delimiter=delimiter, encoding="utf-8-sig")
    assert listing_of(tmp_path)[0] == plain
    read_task_once.cache_clear()
    write(tmp_path, [*ROWS, "30.png"], f"sep={delimiter}\r\n{HEADER}", delimiter=delimiter)
    with pytest.raises(OptionError, match="line 33"):
        listing_of(tmp_path)


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [("1", "1.0", ["1 (15 images, such as 0.png in line 2) and 1.0", "write them alike"]), ("1", "2", None)]
    + [("1", name, [f"{name} (15 images, such as 1.png in line 3)", "remove"]) for name in ("nan", "NaN", "N/A")],
)
def test_classes_that_a_spreadsheet_made_are_remarked_with_their_lines(tmp_path, one, other, words):
    rows = [f"{index}.png,{(one, other)[index % 2]},{'test' if index > 23 else 'train'}" for index in range(30)]
    listing, remarks = listing_of(write(tmp_path, rows, "path,label,split"))
    assert set(listing.classes) == {one, other}
    assert (remarks == ()) if words is None else says(" ".join(remarks), str(tmp_path / "labels.csv"), *words)
    read_task_once.cache_clear()
    rows = [f"{index}.png,{(one, f'?{other}')[index % 2]}|b,{'test' if index > 23 else 'train'}" for index in range(30)]
    write(tmp_path, rows, "path,label,split")
    _, remarks = listing_of(tmp_path, separator="|", unknown="?")
    assert (remarks == ()) if words is None else says(" ".join(remarks), "15 images")


def test_a_table_of_many_labels_needs_no_options(tmp_path):
    write(tmp_path, ["0.png,cat|dog,train", "1.png,,test"], "path,labels,split")
    given = {"folder": str(tmp_path), "table": str(tmp_path / "labels.csv"), "size": [8, 8]}
    listing = read_task("multilabel_csv", given).listing
    assert listing == listing_of(tmp_path, label_column="labels", separator="|")[0]
    assert listing.multi_label and listing.entries[0].label == (0, 1) and listing.entries[1].label == ()
    with pytest.raises(OptionError, match="is empty"):
        read_task("multilabel_csv", given | {"separator": ""})


def test_several_labels_are_separated_by_commas_among_semicolons(tmp_path):
    rows = ["0.png;cat,dog;train", "1.png;cat;test"]
    write(tmp_path, rows, "path;labels;split")
    listing, _ = listing_of(tmp_path, label_column="labels", separator=",")
    assert listing.entries[0].label == (0, 1)


def test_an_unknown_label_is_stored_as_missing(tmp_path):
    rows = ["0.png,cat|?dog,train", "1.png,?cat,train", "2.png,,train", "3.png,dog,test"]
    for index in range(4):
        (tmp_path / f"{index}.png").write_bytes(encode(smooth(seed=index)))
    write(tmp_path, rows, "path,labels,split")
    (tmp_path / "0.png").write_bytes(encode(smooth(seed=0)))
    options = {"folder": str(tmp_path), "table": str(tmp_path / "labels.csv"), "size": [8, 8], "unknown": "?"}
    options |= {"label_column": "labels", "separator": "|"}
    task = read_task("image_csv", options)
    assert task.listing.classes == ("cat", "dog")
    prepare_shard(task, 0, tmp_path / "0.pixels", tmp_path / "0.tsv")
    merge_shards(task, [tmp_path / "0.pixels"], [tmp_path / "0.tsv"], tmp_path / "arrays")
    labels = open_data(tmp_path / "arrays").train_labels
    assert labels.tolist() == [[1, MISSING], [MISSING, 0], [0, 0]] and labels.dtype == "uint8"
    manifest = (tmp_path / "arrays" / "manifest.tsv").read_text().splitlines()
    assert [line.split("\t")[2] for line in manifest[1:]] == ["0,?1", "?0", "", "1"]
    assert (tmp_path / "arrays" / "classes.tsv").read_text().splitlines()[1:] == ["0\tcat\t1\t0", "1\tdog\t0\t1"]


def test_a_label_that_several_readers_gave_counts_once(tmp_path):
    listing, _ = listing_of(write(tmp_path, ["0.png,dog|cat|dog,train", "1.png,cat,test"]), separator="|")
    assert [entry.label for entry in listing.entries] == [(0, 1), (0,)]


@pytest.mark.parametrize("options", [{}, {"split": {"test": 0.3}}])
def test_empty_lines_below_a_table_are_no_images(tmp_path, options):
    listing, remarks = listing_of(write(tmp_path, [*ROWS, ",,,", "", " , ,,"]), **options)
    assert len(listing.entries) == 30 and not any("left out" in remark for remark in remarks)


def test_a_column_that_is_there_twice_is_refused(tmp_path):
    write(tmp_path, ["0.png,cat,train,dog", "1.png,dog,test,cat"], "path,label,split,label")
    with pytest.raises(OptionError, match=r"label_column: 'label' names 2 columns of .*; rename or remove all but one"):
        listing_of(tmp_path)


def test_images_whose_finding_nobody_knows_are_left_out(tmp_path):
    rows = ["0.png,cat,train", "1.png,?cat,train", "2.png,dog|?cat,train", "3.png,?dog,train", "4.png,dog,test"]
    write(tmp_path, rows, "path,labels,split")
    listing, remarks = listing_of(tmp_path, label_column="labels", separator="|", unknown="?", finding="cat")
    assert [(entry.path, entry.label) for entry in listing.entries] == [("0.png", 1), ("3.png", 0), ("4.png", 0)]
    assert "2 of 5 images left out, since it is not known whether they have cat" in remarks


def test_images_are_split_by_a_column_or_by_a_pattern(tmp_path):
    for by in ("patient", "([0-9])[.]png$"):
        read_task_once.cache_clear()
        listing, (remark,) = listing_of(write(tmp_path), split={"test": 0.3, "by": by})
        assert remark == f"the column split of {tmp_path}/labels.csv is not used, since `split` is given"
        groups = {
            split: {entry.group for entry in listing.entries if entry.split == split} for split in ("train", "test")
        }
        assert not groups["train"] & groups["test"] and len(groups["train"] | groups["test"]) == (
            15 if by == "patient" else 10
        )
        assert Counter(entry.split for entry in listing.entries)["test"] == pytest.approx(9, abs=2)


def test_the_words_for_the_splits_can_be_named_and_others_are_counted(tmp_path):
    rows = [*ROWS, "30.png,cat,val,p15", "31.png,cat,,p15", "32.png,cat,val,p15"]
    listing, remarks = listing_of(write(tmp_path, rows))
    assert len(listing.entries) == 30
    assert remarks == ("3 of 33 images left out, since split is neither train nor test: val (2), nothing (1)",)
    read_task_once.cache_clear()
    listing, remarks = listing_of(write(tmp_path, rows), test="val")
    assert [entry.path for entry in listing.entries if entry.split == "test"] == ["30.png", "32.png"]
    assert remarks[0].startswith("7 of 33 images left out, since split is neither train nor val: test (6), nothing (1)")
    assert remarks[1] == "2 of 3 classes have no test image: dog, emu"


@pytest.mark.parametrize("other", [";", ","])
def test_labels_that_another_separator_separates_are_told(tmp_path, other):
    labels = ("a", f"a{other}b", "")
    quoted = [f'"{index}.png","{labels[index % 3]}","{("train", "test")[index > 23]}"' for index in range(30)]
    write(tmp_path, quoted, '"path","labels","split"')
    told = f"separator: '|' is in the labels of no image, and '{other}' is in those of 10 of 20, such as a{other}b; if "
    listing, (remark,) = listing_of(tmp_path, label_column="labels", separator="|")
    assert remark == f"{told}it separates labels, give `separator: '{other}'`" and len(listing.classes) == 2
    assert listing_of(tmp_path, label_column="labels", separator=other)[1] == ()
    read_task_once.cache_clear()
    write(tmp_path, [*quoted, '"30.png","b|a","train"'], '"path","labels","split"')
    assert listing_of(tmp_path, label_column="labels", separator="|")[1] == ()


@pytest.mark.parametrize(("other", "told"), [("Cat", True), ("CATS", False)])
def test_classes_that_differ_only_in_case_are_told(tmp_path, other, told):
    rows = [*ROWS, f"30.png,{other},train,p", f"31.png,{other},test,p"]
    message = "classes whose names differ only in case count as different: Cat and cat; if they are one, give them one "
    assert listing_of(write(tmp_path, rows))[1] == ((f"{message}name",) if told else ())


def test_single_letters_in_both_cases_are_classes(tmp_path):
    rows = [f"{index}.png,{'Aa'[index % 2]},{'test' if index > 23 else 'train'},p" for index in range(30)]
    assert listing_of(write(tmp_path, rows))[1] == ()


@pytest.mark.parametrize("sites", ["site1 site2 site3", "site_a site_b site_c", "fold1 fold2 fold10"])
def test_words_similar_to_the_names_of_splits_are_left_out(tmp_path, sites):
    train, test, other = sites.split()
    rows = [row.replace("train", train).replace("test", test) for row in ROWS]
    listing, remarks = listing_of(write(tmp_path, [*rows, f"30.png,cat,{other},p15"]), train=train, test=test)
    assert len(listing.entries) == 30
    assert remarks == (f"1 of 31 images left out, since split is neither {train} nor {test}: {other} (1)",)
    read_task_once.cache_clear()
    write(tmp_path, [*rows, f"30.png,cat,{train.title()},p15"])
    with pytest.raises(OptionError, match=f"has the value {train.title()!r} for 30.png, which looks like {train!r}"):
        listing_of(tmp_path, train=train, test=test)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            "30.png,cat,trian,p",
            "split_column: 'split' has the value 'trian' for 30.png, which looks like 'train'; correct",
        ),
        ("30.png,cat,Test,p", "has the value 'Test' for 30.png, which looks like 'test'"),
        ("30.png,cat,tset,p", "has the value 'tset' for 30.png, which looks like 'test'"),
        ("30.png,cat,Train ,p", "has the value 'Train' for 30.png, which looks like 'train'"),
        ("30.png,,train,p", "label_column: 'label' is empty for 1 of 31 images: 30.png; complete or remove"),
        (",cat,train,p", "has a line without the path of an image"),
        ("./7.png,dog,test,p", "table: .* names 7.png twice; keep one line for each image"),
        ("30.png,fox,test,p", r"table: .* has no training image of the class fox; add images of it, or remove the cl"),
    ],
)
def test_a_wrong_line_is_refused(tmp_path, row, message):
    with pytest.raises(OptionError, match=message):
        listing_of(write(tmp_path, [*ROWS, row]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"split_column": "part"},
            r"'part' is no column of .*; there are path, label, split, patient; or split the im",
        ),
        (
            {"label_column": "class"},
            r"label_column: 'class' is no column of .*; there are path, label, split, patient$",
        ),
        (
            {"train": "training"},
            r"train: 'training' is in no line of the column split .* has train \(24\), test \(6\); give one",
        ),
        (
            {"test": "val"},
            r"test: 'val' is in no line of the column split of .*, which has train \(24\), test \(6\); give",
        ),
        ({"train": 0, "test": 1}, "train: 0 is not text; write it in quotes"),
        ({"test": "train"}, "test: 'train' is the name of the training images too; name another, or leave"),
        ({"split": {"test": 0.2}, "test": "val"}, "is given together with train or test; these name values of split_c"),
        ({"split": {"test": 0.2, "by": "doctor"}}, "split: 'doctor' has 0 groups in parentheses, not one"),
        ({"table": "nowhere.csv"}, "table: 'nowhere.csv' is not a file here"),
    ],
)
def test_wrong_options_are_refused(tmp_path, changes, message):
    with pytest.raises(OptionError, match=message):
        listing_of(write(tmp_path), **changes)


def test_a_table_in_another_encoding_says_where(tmp_path):
    write(tmp_path, [*ROWS, "30.png,Bär,train,p"], encoding="cp1252")
    with pytest.raises(
        OptionError, match=r"is not UTF-8 in line 32 \(byte e4\); save it as UTF-8, in Excel as `CSV UTF-8`"
    ):
        listing_of(tmp_path)


def test_a_table_of_other_images_is_refused_at_once(tmp_path):
    write(tmp_path, [row.replace(".png", "") for row in ROWS])
    with pytest.raises(OptionError, match=r"table: .* names 0, which is not in .*, nor is any other of its 30 images"):
        listing_of(tmp_path)


@pytest.mark.parametrize(("option", "value"), [("finding", "cat"), ("unknown", "?"), ("nothing", "none")])
def test_options_of_several_labels_are_refused_for_one_class_each(tmp_path, option, value):
    with pytest.raises(OptionError) as error:
        listing_of(write(tmp_path), **{option: value})
    assert error.value.option == option and error.value.value == value and "separator" in error.value.remedy
