"""Sizes and padding of layers, in the form in which models give them to every family."""

Size = int | tuple[int, int]
"""(height, width), or one number for both."""
Padding = int | tuple[tuple[int, int], tuple[int, int]]
"""Pixels added at ((top, bottom), (left, right)), or one number for all four sides."""


def as_pair(size: Size) -> tuple[int, int]:
    """(height, width)."""
    return (size, size) if isinstance(size, int) else size


def as_sides(padding: Padding) -> tuple[tuple[int, int], tuple[int, int]]:
    """((top, bottom), (left, right))."""
    return ((padding, padding), (padding, padding)) if isinstance(padding, int) else padding


def as_symmetric(padding: Padding) -> tuple[int, int] | None:
    """Pixels added on each side of the (height, width); None if opposite sides differ."""
    (top, bottom), (left, right) = as_sides(padding)
    return (top, left) if top == bottom and left == right else None


def count_windows(shape: tuple[int, ...], size: Size, stride: int, padding: Padding) -> tuple[int, int]:
    """Return the number of windows in a column and in a row of the padded image. shape: (height, width, channels)."""
    both = zip(shape[:2], as_pair(size), as_sides(padding), strict=True)
    height, width = (max(0, (pixels + sum(sides) - window) // stride + 1) for pixels, window, sides in both)
    return height, width
