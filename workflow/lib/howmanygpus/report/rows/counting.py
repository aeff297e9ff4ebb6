"""Numbers of things in words."""


def name_count(count: int, noun: str) -> str:
    """Write a number of things, such as `1 image` and `64 images`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
