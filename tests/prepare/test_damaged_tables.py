"""A table of labels that is damaged or has nothing to train on is refused, with file, line and remedy."""

import gzip

import pytest

from helpers.messages import says
from howmanygpus.prepare.listing import describe_dataset, read_task_once
from howmanygpus.prepare.sources import OptionError

HEADER = "path,label,split,note\n"
ROWS = [f"{index}.png,{'cat' if index % 2 else 'dog'},{'test' if index > 20 else 'train'},\n" for index in range(30)]
TABLE = "".join([HEADER, *ROWS])
COMPRESSED = gzip.compress(TABLE.encode(), mtime=0)
NO_GZIP = "is no complete gzip file"


@pytest.fixture(autouse=True)
def forget():
    read_task_once.cache_clear()


def refuse(folder, content: str | bytes, name="labels.csv", source="image_csv", **options) -> str:
    """Return what describing a data set with this table says."""
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    (folder / "0.png").touch()
    with pytest.raises(OptionError) as error:
        describe_dataset(source, {"folder": str(folder), "table": str(folder / name), "size": [8, 8], **options})
    assert error.value.option == "table" and error.value.value == str(folder / name)
    return f"{error.value.problem}; {error.value.remedy}"


@pytest.mark.parametrize("rest", [ROWS, ROWS * 500], ids=["to the end", "over the longest value"])
@pytest.mark.parametrize("row", ['30.png,cat,train,"note\n', '30.png,"cat,train,note\n'])
def test_a_quotation_mark_that_is_never_closed_is_found_in_its_line(tmp_path, row, rest):
    message = refuse(tmp_path, "".join([TABLE, row, *rest]))
    assert "line 32" in message
    if '"note' in row or len(rest) > len(ROWS):
        assert message.startswith("cannot be read from line 32 on (")
        assert message.endswith("; look there for a quotation mark that is not closed")


def test_values_of_several_lines_are_read(tmp_path):
    (tmp_path / "labels.csv").write_text(f'{TABLE}30.png,cat,train,"two\nlines"\n')
    (tmp_path / "0.png").touch()
    options = {"folder": str(tmp_path), "table": str(tmp_path / "labels.csv"), "size": [8, 8]}
    assert describe_dataset("image_csv", options).num_train == 22


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (COMPRESSED[:40], "ended before the end-of-stream marker"),
        (TABLE.encode(), "Not a gzipped file"),
        (COMPRESSED[:12] + b"\xff" * 20 + COMPRESSED[32:], "while decompressing data"),
        (COMPRESSED[:-8] + bytes(8), "CRC check failed"),
    ],
    ids=["truncated", "not compressed", "codes", "checksum"],
)
def test_a_compressed_table_that_is_damaged_is_refused(tmp_path, content, reason):
    message = refuse(tmp_path, content, "labels.csv.gz")
    assert message.startswith(NO_GZIP) and reason in message and "; copy or compress it again, or remove .gz" in message


@pytest.mark.parametrize("options", [{}, {"split": {"test": 0.2}}], ids=["column", "split"])
def test_a_table_without_images_is_refused(tmp_path, options):
    assert says(refuse(tmp_path, HEADER, **options), "no line", "write one line for each image")
    assert says(refuse(tmp_path, "", **options), "empty", "write a header")


def test_a_table_with_one_class_is_refused_in_the_table(tmp_path):
    message = "has only the class cat; training needs at least two; correct it or `label_column`"
    assert refuse(tmp_path, TABLE.replace("dog", "cat")) == message


def test_a_table_of_several_labels_without_any_is_refused_in_the_table(tmp_path):
    table = TABLE.replace("dog", "").replace("cat", "")
    message = "has no label of any image; correct `label_column` or `nothing`, or write labels"
    assert refuse(tmp_path, table, separator="|") == message
