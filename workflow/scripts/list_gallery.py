"""Check every entry of the gallery, and write the page that lists and compares them."""

import argparse
import getpass
import os
import sys
from pathlib import Path

from howmanygpus.config.errors import ConfigError
from howmanygpus.files import write_text_atomic
from howmanygpus.report.answer.texts import group_by_study, render_gallery
from howmanygpus.report.gallery import pair_entries, read_gallery
from howmanygpus.report.gallery_figure import draw_rates
from howmanygpus.report.style import save_svg

ORDINARY = ("root", "localhost")
SHORTEST = 3


def name_this_place() -> tuple[str, ...]:
    """Return the names of this host and of its user, unless they are words that any text may have."""
    names = {os.uname().nodename, os.uname().nodename.split(".")[0], getpass.getuser()}
    return tuple(sorted(name for name in names if len(name) >= SHORTEST and name not in ORDINARY))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("gallery"), help="of the entries (%(default)s)")
    arguments = parser.parse_args()
    folder = arguments.folder
    if not folder.is_dir():
        sys.exit(f"--folder: {folder} is no folder; name the one with the entries")
    try:
        entries = read_gallery(folder, name_this_place())
    except ConfigError as error:
        sys.exit(str(error))
    figures = {}
    for title, own in group_by_study(entries).items():
        figures[title] = "-".join(map(str, filter(None, own[0].study))) + ".svg"
        save_svg(draw_rates(own), folder / figures[title])
    write_text_atomic(folder / "entries.md", render_gallery(entries, pair_entries(entries), figures))
    print(f"{folder}/entries.md lists {', '.join(entry.name for entry in entries) or 'no entry'}.")


if __name__ == "__main__":
    main()
