"""The website has every document, links lead somewhere, and what a forge shows of the project is true."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from howmanygpus.invocation.versions import TESTED
from howmanygpus_tools.stage_site import list_pages, write_for_site
from project import ROOT

FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


SITE = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
PAGES = list_pages(SITE["nav"])


def read(page: str) -> str:
    """Read a page without its code, which has no links and no headings."""
    return FENCE.sub("", (ROOT / page).read_text())


def list_anchors(page: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", read(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def test_the_navigation_names_every_page_once():
    documents = {str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")}
    assert documents and documents <= set(PAGES)
    assert len(PAGES) == len(set(PAGES)) and all((ROOT / page).is_file() for page in PAGES)


def test_what_a_reader_looks_for_first_is_one_click_away():
    first = {title: list_pages(part)[0] for entry in SITE["nav"] for title, part in entry.items()}
    wanted = {"Install": "docs/install.md", "Configure": "config/README.md"}
    wanted |= {"Run on a cluster": "profiles/README.md", "Report": "docs/figures.md"}
    assert wanted.items() <= first.items() and "navigation.tabs" in SITE["theme"]["features"]
    assert SITE["theme"]["font"] is False, "fonts would come from another host"


@pytest.mark.parametrize("page", PAGES)
def test_every_link_of_a_page_leads_to_a_page_or_a_file_and_to_a_heading(page):
    for target in LINK.findall(read(page)):
        if target.startswith(("https://", "http://")):
            continue
        place, _, anchor = target.partition("#")
        found = (ROOT / page).parent.joinpath(place).resolve() if place else ROOT / page
        assert found.is_file(), target
        name = str(found.relative_to(ROOT))
        assert name in PAGES or found.suffix != ".md", f"{target} is not in the navigation of mkdocs.yml"
        assert not anchor or anchor in list_anchors(name), target


def test_numbered_items_and_comments_above_tables_are_written_for_the_site():
    text = "1. One:\n\n   ```\n     code\n   ```\n\n2. Two\n\nText\n   kept\n\n<!-- generated: x -->\n| a |\n|---|\n"
    written = write_for_site(text)
    assert written.startswith("1. One:\n\n    ```\n      code\n    ```\n\n2. Two\n\nText\n   kept\n\n\n| a |")


@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.stem)
def test_a_form_for_issues_asks_for_the_answer(form):
    described = yaml.safe_load(form.read_text())
    assert {"name", "description", "body"} <= described.keys()
    fields = {field["id"]: field["attributes"] for field in described["body"]}
    assert len(fields) == len(described["body"]) and all(field["label"] for field in fields.values())
    assert "results/tables/answer.md" in fields["answer"]["description"]


def test_there_are_forms():
    assert FORMS


def test_continuous_integration_calls_what_the_makefile_has():
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]
    called = {name: [step["run"] for step in job["steps"] if "run" in step] for name, job in jobs.items()}
    assert called == {name: [f"make {name}"] for name in ("check", "test", "demo", "site")}
    targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()
    assert called.keys() <= set(targets)
    kept = [step["with"]["path"] for step in jobs["demo"]["steps"] if "upload-artifact" in step.get("uses", "")]
    assert "results/report.html" in kept[0]


def test_badges_say_what_is_known():
    oldest, beyond = re.fullmatch(r">=(\S+),<9\.(\d+)", TESTED["snakemake"]).groups()
    known = {
        "snakemake": f"Snakemake: {oldest} to 9.{int(beyond) - 1}",
        "python": f"Python: {PROJECT['requires-python'].removeprefix('>=')} or later",
        "licence": f"licence: {PROJECT['license'].replace('-', ' ')}",
    }
    said = {
        path.stem: re.search("<title>(.*)</title>", path.read_text())[1]
        for path in (ROOT / "docs" / "badges").glob("*.svg")
    }
    assert said == known


def test_the_citation_has_the_version_of_the_project():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (cited["version"], cited["license"]) == (PROJECT["version"], PROJECT["license"])
    assert Path(ROOT / "LICENSE").read_text().strip().startswith("Apache License")
