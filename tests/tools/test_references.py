"""Generated tables in the documentation match the schemas and the registry, and a difference is reported."""

import copy
import re
import shutil
from pathlib import Path

import pytest

from howmanygpus.config.schema import read_schema
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.report.pages import table_pages
from howmanygpus_tools import references
from howmanygpus_tools.references import DOCUMENTS, TABLES, MarkerError, render_document
from project import ROOT


def first_cells(table: str) -> list[str]:
    return re.findall(r"^\| `(\w+)` \|", table, flags=re.MULTILINE)


@pytest.mark.parametrize("path", DOCUMENTS, ids=str)
def test_documents_have_the_tables_that_are_generated_now(path):
    text = (ROOT / path).read_text()
    assert text == render_document(text, str(path)), f"{path} has drifted: run `make references`"


def test_every_table_is_shown_somewhere():
    shown = [name for path in DOCUMENTS for name in re.findall(r"<!-- generated: (\w+) -->", (ROOT / path).read_text())]
    assert sorted(shown) == sorted(TABLES)


@pytest.mark.parametrize(
    "change",
    [
        lambda study: study["epochs"].update(description="Another description."),
        lambda study: study["repeats"].update(default=2),
        lambda study: study["seed"].update(minimum=1),
        lambda study: study.update(colour={"description": "New.", "type": "string", "default": "red"}),
    ],
)
def test_a_changed_schema_makes_the_document_drift(monkeypatch, change):
    schema = copy.deepcopy(read_schema("config"))
    change(schema["$defs"]["study"]["properties"])
    monkeypatch.setattr(references, "read_schema", lambda name: schema)
    text = (ROOT / "config/README.md").read_text()
    assert text != render_document(text, "config/README.md")


def test_a_changed_caption_makes_the_page_of_figures_drift(monkeypatch, tmp_path):
    captions = tmp_path / "captions"
    shutil.copytree(table_pages.CAPTIONS, captions)
    monkeypatch.setattr(table_pages, "CAPTIONS", captions)
    text = (ROOT / "docs/figures.md").read_text()
    assert text == render_document(text, "docs/figures.md") and "{{" not in text
    for name in ("speedup", "jobs"):
        caption = (captions / f"{name}.rst").read_text()
        (captions / f"{name}.rst").write_text(f"Another caption. {caption}")
        assert text != render_document(text, "docs/figures.md"), name
        (captions / f"{name}.rst").write_text(caption)


@pytest.mark.parametrize("name", ["frameworks", "abilities", "best_tiers"])
def test_every_framework_has_a_row(name):
    assert first_cells(TABLES[name]()) == list(FRAMEWORKS)


def test_every_framework_starts_somehow_and_has_a_loader_or_none():
    for framework, entry in FRAMEWORKS.items():
        assert TABLES["processes"]().count(f"`{framework}`") == 1, framework
        assert TABLES["loaders"]().count(f"`{framework}`") == (2 if entry.dali_loader else 1), framework


def test_values_and_defaults_match_the_schema():
    rows = {line.split("`")[1]: line for line in TABLES["study_keys"]().splitlines()[2:]}
    assert list(rows) == list(read_schema("config")["$defs"]["study"]["properties"])
    assert rows["dataset"].startswith("| `dataset` | text | required |")
    assert rows["per_device_batch_size"].split(" | ")[1] == "`max`, or list: integer >= 1 or `max`"
    assert rows["num_nodes"].split(" | ")[1] == "integer >= 1 or null, or list: integer >= 1"
    assert rows["num_gpus"].startswith("| `num_gpus` | `auto`, or list: integer >= 1 | `[1]` |")
    assert rows["loader_kind"].startswith("| `loader_kind` | `threads`, `processes`, null | `null` |")
    assert "| `epsilon` | number > 0 | `1.0e-8` |" in TABLES["optimizer_keys"]()
    assert "| `momentum` | number >= 0, < 1 | `0.9` |" in TABLES["optimizer_keys"]()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no table", "notes.md: no `<!-- generated: NAME -->`"),
        (
            "<!-- generated: colours -->\n<!-- end -->",
            "notes.md: the generated table 'colours' is unknown; choose from",
        ),
    ],
)
def test_a_document_without_a_known_table_is_refused(text, message):
    with pytest.raises(MarkerError, match=re.escape(message)):
        render_document(text, "notes.md")


def test_every_page_of_the_design_is_in_the_index_by_its_title():
    folder = ROOT / "docs" / "design"
    titles = {path.name: path.read_text().splitlines()[0] for path in folder.glob("*.md") if path.name != "README.md"}
    listed = re.findall(r"^\| \[(.+)\]\((.+)\) \|", (folder / "README.md").read_text(), re.MULTILINE)
    assert titles == {name: f"# {title}" for title, name in listed}


def name_heading(heading: str) -> str:
    """Return the anchor that GitHub gives a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def find_broken_links(path: Path) -> list[str]:
    """Return the links of a document to files that do not exist, or to headings that their document lacks."""
    broken = []
    for link in re.findall(r"\]\((?!https?:)([^)]+)\)", path.read_text()):
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        headings = re.findall(r"^#+ (.+)$", target.read_text(), re.MULTILINE) if anchor and target.is_file() else []
        if not target.exists() or (anchor and anchor not in map(name_heading, headings)):
            broken.append(link)
    return broken


@pytest.mark.parametrize(
    "path",
    [*ROOT.glob("*.md"), *ROOT.glob("*/README.md"), *ROOT.glob("benchmarks/*/README.md"), *ROOT.glob("docs/**/*.md")],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_links_lead_somewhere(path):
    assert find_broken_links(path) == []


def test_a_link_to_a_missing_file_or_heading_is_found(tmp_path):
    text = "## Native loaders\n[a](b.md) [c](#native-loaders) [d](#loaders) [e](notes.md#native-loaders)"
    (tmp_path / "notes.md").write_text(text)
    assert find_broken_links(tmp_path / "notes.md") == ["b.md", "#loaders"]
