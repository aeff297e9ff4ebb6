"""
Names of files, folders and classes: which cannot be written into tables, which look the same, and which a system made.
"""

import re
import unicodedata
from collections import Counter

from howmanygpus.prepare.sources import shorten_list

UNWRITABLE = ("Cc", "Cs", "Zl", "Zp")
"""Unicode's categories of characters that a table cannot hold: control characters, bytes that are not UTF-8, and
separators of lines and paragraphs."""
INVISIBLE, SPACES = ("Cf",), re.compile(r"\s+")
SYSTEM_FILES = {
    "@eadir",
    "@recycle",
    "@recently-snapshot",
    "@sharebin",
    "@snapshot",
    "@tmp",
    "@transcode",
    "@__thumb",
    "#recycle",
    "#snapshot",
    "~snapshot",
    "lost+found",
    "found.000",
    "$recycle.bin",
    "system volume information",
    "network trash folder",
    "temporary items",
    "__macosx",
    "__pycache__",
    "icon\r",
    "desktop.ini",
    "thumbs.db",
    "ehthumbs.db",
    "ehthumbs_vista.db",
    "picasa.ini",
    "zbthumbnail.info",
}
"""Files and folders of Synology, QNAP and NetApp, of Windows, macOS and Linux, and of programs, in lower case."""
SYNOLOGY_NAMES = re.compile(r"@Syno(EAStream|Resource)$")


def is_writable(name: str) -> bool:
    """Whether a line of a table can have a name."""
    return not any(unicodedata.category(character) in UNWRITABLE for character in name)


def show(name: str) -> str:
    return name if name.isprintable() else ascii(name)


def normalize(name: str) -> str:
    """Return a name with composed letters and accents. macOS stores them apart, which is the same text to Unicode."""
    return unicodedata.normalize("NFC", name)


def normalize_look(name: str) -> str:
    """Return a text that is the same for names that look the same to a person, except for their case."""
    visible = (character for character in normalize(name) if unicodedata.category(character) not in INVISIBLE)
    return SPACES.sub(" ", "".join(visible)).strip()


class SkippedEntries:
    """Counts the files and folders that are neither images nor classes, since they are hidden or made by a system."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def takes(self, name: str) -> bool:
        """Return whether a file or folder is left out, and count it if it is."""
        is_taken = name.startswith(".") or name.lower() in SYSTEM_FILES or bool(SYNOLOGY_NAMES.search(name))
        if is_taken:
            self._counts["._*" if name.startswith("._") else show(name)] += 1
        return is_taken

    def describe(self) -> tuple[str, ...]:
        if not self._counts:
            return ()
        names = shorten_list((f"{name} ({count})" for name, count in self._counts.most_common()), most=10)
        return (f"left out, because they are hidden or made by a system or a NAS: {names}",)
