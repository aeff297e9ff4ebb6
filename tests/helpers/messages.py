"""What tests ask of a message: its place, its value and its remedy, and not how it is worded."""

from collections.abc import Iterable


def says(message: object, *parts: object) -> bool:
    """Return whether the text of a message has all the parts, in this order."""
    text, position = str(message), 0
    for part in map(str, parts):
        found = text.find(part, position)
        if found < 0:
            return False
        position = found + len(part)
    return True


def list_texts(findings: Iterable[object]) -> list[str]:
    """Return the texts of messages or findings, as users see them."""
    return list(map(str, findings))
