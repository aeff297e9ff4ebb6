"""Words that a reader sees are in templates. Modules of tables have codes and numbers."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.messages import says
from howmanygpus.report.categories import CATEGORIES
from howmanygpus.report.words import word
from project import ROOT

TABLES = ROOT / "workflow" / "lib" / "howmanygpus" / "report" / "tables"
TEMPLATES = ROOT / "workflow" / "report" / "templates"
GAP = "{}"
"""Stands for a value in an f-string. It counts as a word, so that a sentence is not hidden by the values in it."""
WORD = r"(?:[\w'`:.,;()+-]*[a-z][\w'`:.,;()+-]*|[({]*\{\}[%.,;:)}]*|%)"
PHRASE = re.compile(rf"{WORD}(?: +{WORD}){{3,}}")
SENTENCE = re.compile(r"\w+ .*\w[.;](?: |$)")


def list_texts(code: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and text of each string, joined over the values of an f-string, without docstrings and errors."""
    if isinstance(code, ast.Raise) or (isinstance(code, ast.Expr) and isinstance(code.value, ast.Constant)):
        return
    if isinstance(code, ast.JoinedStr):
        yield code.lineno, "".join(each.value if isinstance(each, ast.Constant) else GAP for each in code.values)
    elif isinstance(code, ast.Constant) and isinstance(code.value, str):
        yield code.lineno, code.value
    for each in ast.iter_child_nodes(code):
        if not (isinstance(code, ast.JoinedStr) and isinstance(each, ast.Constant)):
            yield from list_texts(each)


def find_sentences(source: str) -> list[tuple[int, str]]:
    """Return line and text of strings with four words in a row, of which two are no values, or with a full stop."""
    texts = [(line, " ".join(text.split())) for line, text in list_texts(ast.parse(source))]
    phrases = [(line, text) for line, text in texts if PHRASE.search(text) or SENTENCE.search(text)]
    return [(line, text) for line, text in phrases if text not in CATEGORIES and len(re.findall("[a-z]{2,}", text)) > 1]


@pytest.mark.parametrize("path", sorted(TABLES.rglob("*.py")), ids=lambda path: str(path.relative_to(TABLES)))
def test_modules_of_tables_have_no_sentences(path: Path):
    assert find_sentences(path.read_text()) == []


@pytest.mark.parametrize(
    "source",
    [
        'x = "No run has a rate."',
        'x = f"{line} loses {share} at {devices}."',
        'x = "which the repeats do not tell"',
        'x = f"a larger batch: {size} {unit} per device"',
        'x = "in one repeat " + f"and {number} more were left"',
        'LACKS = {"loader": "the time of the loader\'s workers"}',
        'x = text + " It failed; repeat"',
        'x = f"of {count} of the runs"',
    ],
)
def test_a_sentence_in_a_module_would_be_found(source):
    assert find_sentences(source)


PAGES = ("explanations", "health", "tables", "doubts", "network")
NAMED = re.compile(r'(?:word\((?:"\w+"|PAGE), |lack\(|Finding\([^,]+, )"(\w+)"')
"""Where a module names a code."""


def test_each_code_has_words_and_each_macro_a_code():
    """A missing macro would fail only when its fact occurs, and one that nothing names is left over."""
    code = "\n".join(path.read_text() for path in sorted(TABLES.parent.rglob("*.py")))
    texts = {page: (TEMPLATES / f"{page}.jinja").read_text() for page in PAGES}
    macros = {page: re.findall(r"{% macro (\w+)\(", text) for page, text in texts.items()}
    assert set(NAMED.findall(code)) <= {name for names in macros.values() for name in names}
    for page, names in macros.items():
        assert len(names) == len(set(names)), page
        for name in names:
            is_called = re.search(rf"(?<!macro )\b{name}\(", texts[page]) is not None
            assert is_called or f'"{name}"' in code, f"{page}.jinja: nothing says {name}"


@pytest.mark.parametrize("memory_gib", [0.928, 139.0])
def test_another_variant_of_a_program_says_what_differs_and_then_what_does_not(memory_gib):
    best = {"memory_gib": memory_gib, "loss": {"median": 1.536}, "quality": {"median": 0.3}}
    other = best | {"memory_gib": 1.07 * memory_gib, "quality": {"median": 0.31}}
    text = word("answer", "beside", other=other, best=best, metric="accuracy")
    gib = [f"{1.07 * memory_gib:.3g}", f"{memory_gib:.3g}"]
    assert says(text, f"memory {gib[0]} instead of {gib[1]} GiB", "accuracy 0.31 instead of 0.3", "same training loss")
