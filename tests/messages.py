"""What tests ask of a message: its place, its value and its remedy, and not how it is worded."""


def says(message: str, *parts: object) -> bool:
    """Return whether the message has all the parts, in this order."""
    position = 0
    for part in map(str, parts):
        found = message.find(part, position)
        if found < 0:
            return False
        position = found + len(part)
    return True
