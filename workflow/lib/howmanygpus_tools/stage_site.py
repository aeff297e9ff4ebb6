"""
Copy the documents into the folder from which `make site` builds the website.

A generator of websites reads one folder, and the documents are in several, beside what they describe. Each page of the
navigation in mkdocs.yml, and each file that a page links to, is copied under its path in the repository. Relative links
therefore lead to the same files on the site and on a forge.
"""

import re
import shutil
from typing import Any

import yaml

from howmanygpus.clone import CLONE

LINK = re.compile(r"\]\(([^)\s#:]+)")
ITEM = re.compile(r"\d+\. ")
COMMENT = re.compile(r"^<!--.*?-->\n", re.MULTILINE)


def list_pages(nav: Any) -> list[str]:
    """Return the paths of the pages of a navigation, or of a part of it."""
    if isinstance(nav, str):
        return [nav]
    return [page for part in (nav.values() if isinstance(nav, dict) else nav) for page in list_pages(part)]


def find_linked(page: str) -> set[str]:
    """Return the paths of the files of other kinds that a page links to or shows."""
    targets = ((CLONE / page).parent / target for target in LINK.findall((CLONE / page).read_text()))
    files = (target.resolve() for target in targets if target.is_file() and target.suffix != ".md")
    return {str(file.relative_to(CLONE)) for file in files}


def write_for_site(text: str) -> str:
    """Write what Python-Markdown reads otherwise than forges: comments above tables, and indents of numbered items."""
    lines, is_item = [], False
    for line in COMMENT.sub("\n", text).split("\n"):
        if line.strip():
            is_item = bool(ITEM.match(line)) or (is_item and line.startswith(" "))
        lines.append(f" {line}" if is_item and line.startswith("   ") else line)
    return "\n".join(lines)


def main() -> None:
    site = yaml.safe_load((CLONE / "mkdocs.yml").read_text())
    folder = CLONE / site["docs_dir"]
    shutil.rmtree(folder, ignore_errors=True)
    pages = list_pages(site["nav"])
    linked = {file for page in pages for file in find_linked(page)}
    for path in [*pages, *linked, *site["extra_css"]]:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if path in pages:
            target.write_text(write_for_site((CLONE / path).read_text()))
        else:
            shutil.copy(CLONE / path, target)


if __name__ == "__main__":
    main()
