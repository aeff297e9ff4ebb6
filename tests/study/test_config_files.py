"""A config or machine file that cannot be read is refused, and the message names the file, the line and the remedy."""

import pytest

from howmanygpus.config.errors import ConfigError, suggest
from howmanygpus.config.files import check_config_files, read_yaml
from howmanygpus.config.schema import retype
from howmanygpus.site.machine import read_machine

WRONG_FILES = [
    (
        "studies:\n  s: 1\n  t: 2\n  s: 3\n",
        "config.yaml:4: studies.s is given a second time, after line 2; keep one of",
    ),
    ("a: 1\nb: [{c: 1, c: 1}]\n", "config.yaml:2: b[0].c is given a second time, after line 2; keep one of them"),
    (
        "a: &a {b: 1}\nc: {<<: *a, <<: *a}\n",
        "config.yaml:2: c.<< is given a second time, after line 2; keep one of them",
    ),
    ('{\n\t"a": 1,\n\t"a": 2\n}', "config.yaml:3: a is given a second time, after line 2"),
    ("studies:\n\ts: 1\n", "config.yaml:2: found character that cannot start any token; indent by spaces, not by tabs"),
    ("studies:\n  s: 1\n\tt: 1\n", "config.yaml:3: found a tab character that violates indentation; indent by spaces"),
    ("studies:\n  s: a: b\n", "config.yaml:2: mapping values are not allowed in this context; correct this line or"),
    ("a: 1\n---\nb: 1\n", "config.yaml:2: but found another document; correct this line or the one before it"),
    ("a: !secret b\n", "config.yaml:1: could not determine a constructor for the tag '!secret'; correct this line"),
    ('a: 1\nb: "\x01"\n', "config.yaml:2: the character '\\x01' is not allowed in YAML; remove it"),
    ("a: 1\nb: &b\n  c: *b\n", "config.yaml:2: this contains itself, at b.c; remove the alias there"),
    ("a: 1\nb: caf\xe9\n".encode("latin-1"), "config.yaml:2: the byte 0xe9 is not UTF-8; save the file as UTF-8"),
    ("a:\n- 2024-02-30\n", "config.yaml:2: a[0]: 2024-02-30 cannot be read: day is out of range for month; correct it"),
    ("a: 1\n2024-02-30: 1\n", "config.yaml:2: 2024-02-30: 2024-02-30 cannot be read: day is out of range"),
    ("a: !!int b\n", "config.yaml:1: a: b cannot be read: invalid literal for int() with base 10: 'b'; correct it"),
    ("a: {b: 12:00:00}\n", "config.yaml:1: a.b: 12:00:00 is 43200 in YAML, which reads it with the base 60; write the"),
    ("a: 1:30.5\n", "config.yaml:1: a: 1:30.5 is 90.5 in YAML, which reads it with the base 60; write the number that"),
    (
        "a:\n  b: [1, 010]\n",
        "config.yaml:2: a.b[1]: 010 is 8 in YAML, which reads it with the base 8; write the number",
    ),
    ("a: 1\n".encode("utf-16"), "config.yaml:1: the byte 0xff is not UTF-8; save the file as UTF-8"),
]


@pytest.mark.parametrize(("content", "message"), WRONG_FILES, ids=[message for _, message in WRONG_FILES])
def test_wrong_file(content, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "config.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    for read in (read_yaml, read_machine, lambda path: check_config_files([path])):
        with pytest.raises(ConfigError) as error:
            read(path)
        assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "config.yaml: the file is empty; begin it with `studies:`"),
        ("# nothing\n", "config.yaml: the file is empty; begin it with `studies:`"),
        ("- studies\n", "config.yaml: the file has no keys at its top level; begin it with `studies:`"),
    ],
)
def test_a_config_file_without_keys_is_refused(content, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text(content)
    with pytest.raises(ConfigError) as error:
        check_config_files(["config.yaml"])
    assert str(error.value) == message


def test_missing_files_and_folders_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"nowhere.yaml: No such file or directory; name an existing file"):
        read_yaml(tmp_path / "nowhere.yaml")
    with pytest.raises(ConfigError, match=r": this is a folder; name a file in it"):
        read_yaml(tmp_path)


@pytest.mark.parametrize(
    ("content", "values"),
    [
        ("\ufeffa: 1\n", {"a": 1}),
        ('{\t"a": [1, "b"]\t}\n', {"a": [1, "b"]}),
        ("a: 1\r\nb: 2\r\n", {"a": 1, "b": 2}),
        (
            "x: &x {p: 1}\ny: &y {<<: *x, p: 2}\nz: {<<: [*y, *x], q: [*x, *x]}\n",
            {"x": {"p": 1}, "y": {"p": 2}, "z": {"p": 2, "q": [{"p": 1}, {"p": 1}]}},
        ),
        ("a: ['1:30', \"010\", 0, 0.5, 0x10, 1_000]\n", {"a": ["1:30", "010", 0, 0.5, 16, 1000]}),
    ],
    ids=["byte-order mark", "JSON with tabs", "Windows", "anchors", "numbers"],
)
def test_right_file(content, values, tmp_path):
    (tmp_path / "config.yaml").write_bytes(content.encode())
    assert read_yaml(tmp_path / "config.yaml") == values


@pytest.mark.parametrize(("word", "known"), [("MINE.yml", "MINE.yaml"), ("mine.yml", "MINE.yaml"), ("Mean", "mean")])
def test_suggestions_ignore_case(word, known):
    assert suggest(word, [known, "other"]) == f"did you mean {known}?"


def test_text_of_the_command_line_that_is_no_yaml_remains_text():
    assert retype({"a": ["1", "[", "true"]}) == {"a": [1, "[", True]}
    misread = {"a": ["12:00:00", "010", "2024-02-30"]}
    assert retype(misread) == misread
