"""Each row of docs/sources.md names what repeats it, and everything that it names exists."""

import re
from functools import cache
from pathlib import Path

import pytest

from howmanygpus.config.files import read_yaml
from howmanygpus.config.schema import read_schema
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.report.figures import list_figures
from howmanygpus.report.tables import list_tables, load_table
from howmanygpus.self_description import list_modules
from howmanygpus.study.config.metrics import list_metrics
from howmanygpus.study.networks import list_models
from howmanygpus.study.published import list_published
from project import ROOT

PAGE = ROOT / "docs" / "sources.md"
MOST_WITHOUT = 5
NO, LEFT_OUT = "**no**", "**left out**"
ROW = re.compile(r"^\| (\d+) \| (.+?) \| (.+) \|$", re.MULTILINE)
LINK = re.compile(r"\[[^\]]+\]\(([^)]+)\)")
SPAN = re.compile(r"`([^`]+)`")
TABLES_OF_RULES = ("parity.tsv", "probes.tsv")
"""Tables that no module of report/tables/ makes."""


def list_rows() -> list[tuple[int, str, str]]:
    return [(int(number), claim, answer) for number, claim, answer in ROW.findall(PAGE.read_text())]


@cache
def read_studies() -> dict[str, dict]:
    """Return the studies of all configs that are shipped, by name."""
    configs = [read_yaml(path) for path in sorted((ROOT / "config").rglob("*.yaml"))]
    return {name: study for config in configs for name, study in config.get("studies", {}).items()}


@cache
def list_names() -> dict[str, set[str]]:
    """Return what exists, by the word with which the page introduces a name."""
    rules = "\n".join(path.read_text() for path in sorted((ROOT / "workflow" / "rules").glob("*.smk")))
    statuses = read_schema("run")["$defs"]["run"]["properties"]["status"]["enum"]
    return {
        "figure": set(list_figures()),
        "table": {f"{name}.tsv" for name in list_tables()} | set(TABLES_OF_RULES),
        "column": {column for name in list_tables() for column in load_table(name).COLUMNS},
        "study": set(read_studies()),
        "variant": {name for study in read_studies().values() for name in study.get("variants") or {}},
        "framework": set(FRAMEWORKS),
        "model": set(list_models()),
        "source": set(list_modules(ROOT / "workflow" / "lib" / "howmanygpus" / "prepare" / "sources")),
        "metric": set(list_metrics()),
        "status": set(statuses),
        "numbers": set(list_published()),
        "target": set(re.findall(r"^ *rule (\w+):", rules, re.MULTILINE)),
        "file": set(re.findall(r"[\w.]+\.sbatch", rules)),
    }


KINDS = "figure|table|column|variant|framework|model|source|metric|status|numbers|file|target|key|stud(?=y|ies)"
NOUNS = re.compile(rf"\b({KINDS})")


def find_kind(text: str) -> str:
    """Return the last word of a kind in a text."""
    found = NOUNS.findall(text)
    assert found, f"no word says what is named after {text!r}"
    return "study" if found[-1] == "stud" else found[-1]


def has_key(name: str) -> bool:
    """Return whether a study accepts a key, such as `optimizer.lr_scaling`, with its value, such as `scaling: weak`."""
    schema = read_schema("config")
    path, _, value = name.partition(": ")
    rule = schema["$defs"]["study"]
    for part in path.split("."):
        if part not in rule.get("properties", {}):
            return False
        rule = rule["properties"][part]
        while "$ref" in rule:
            rule = schema["$defs"][rule["$ref"].rpartition("/")[2]]
    choices = rule.get("enum") or rule.get("items", {}).get("enum")
    return not value or not choices or value in choices


def exists(kind: str, name: str) -> bool:
    return has_key(name) if kind == "key" else name in list_names()[kind]


def test_every_row_is_there_and_at_most_five_say_no():
    rows = list_rows()
    assert [number for number, *_ in rows] == list(range(1, 100))
    assert sum(answer.startswith(NO) for *_, answer in rows) <= MOST_WITHOUT
    assert all(SPAN.search(answer) or LINK.search(answer) for *_, answer in rows)
    assert [number for number, _, answer in rows if answer.startswith(LEFT_OUT)] == [44, 49, 70, 71]


@pytest.mark.parametrize(("number", "answer"), [(number, answer) for number, _, answer in list_rows()])
def test_every_name_in_a_row_exists(number, answer):
    text = LINK.sub("", answer)
    for span in SPAN.finditer(text):
        kind = find_kind(text[: span.start()])
        assert exists(kind, span[1]), f"row {number}: there is no {kind} {span[1]!r}"


def slug(heading: str) -> str:
    """Return the anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def list_anchors(path: Path) -> set[str]:
    return {slug(heading) for heading in re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)}


@pytest.mark.parametrize("target", sorted(set(LINK.findall(PAGE.read_text()))))
def test_every_link_leads_to_a_file_and_a_heading(target):
    place, _, anchor = target.partition("#")
    path = PAGE.parent / place
    assert path.exists(), place
    assert not anchor or anchor in list_anchors(path), target


@pytest.mark.parametrize("name", ["figure `none`", "key `scaling: sideways`", "key `optimizer.speed`", "study `cats`"])
def test_a_name_that_does_not_exist_is_noticed(name):
    (span,) = SPAN.finditer(name)
    assert not exists(find_kind(name[: span.start()]), span[1])
