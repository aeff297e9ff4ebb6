"""
Hook of MkDocs, which makes the site of the documents (mkdocs.yml).

MkDocs reads one folder, and the documents are in several, beside what they describe. The hook gives it each page of the
navigation, and each file that a page links to, under its path in the repository. Relative links therefore lead to the
same files on the site and on a forge.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"\]\(([^)\s#:]+)")
ITEM = re.compile(r"\d+\. ")
COMMENT = re.compile(r"^<!--.*?-->\n", re.MULTILINE)


def on_config(config: "MkDocsConfig") -> None:
    config.mdx_configs["toc"]["slugify"] = slugify


def slugify(heading: str, separator: str) -> str:
    """Return the anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", separator)


def list_pages(nav: Any) -> list[str]:
    """Return the paths of the pages of a navigation, or of a part of it."""
    if isinstance(nav, str):
        return [nav]
    return [page for part in (nav.values() if isinstance(nav, dict) else nav) for page in list_pages(part)]


def find_linked(page: str) -> set[str]:
    """Return the paths of the files of other kinds that a page links to or shows."""
    targets = ((ROOT / page).parent / target for target in LINK.findall((ROOT / page).read_text()))
    files = (target.resolve() for target in targets if target.is_file() and target.suffix != ".md")
    return {str(file.relative_to(ROOT)) for file in files}


def on_files(files: "Files", config: "MkDocsConfig") -> None:
    # Tests import this module without MkDocs.
    from mkdocs.structure.files import File

    for file in [file for file in files if file.src_dir == config.docs_dir]:
        files.remove(file)
    pages = list_pages(config.nav)
    linked = sorted({file for page in pages for file in find_linked(page)})
    for path in [*pages, *linked, *config.extra_css]:
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Write what Python-Markdown reads otherwise than forges: comments above tables, and indents of numbered items."""
    lines, is_item = [], False
    for line in COMMENT.sub("\n", markdown).split("\n"):
        if line.strip():
            is_item = bool(ITEM.match(line)) or (is_item and line.startswith(" "))
        lines.append(f" {line}" if is_item and line.startswith("   ") else line)
    return "\n".join(lines)
