"""Counters that only grow, as devices and the kernel keep them, and the rates that follow from them."""


class Counter:
    """Follows a counter that begins again at zero when it reaches its largest value.

    size: number of values before it begins again; None if it never does. total: its growth since the first value.
    """

    def __init__(self, size: float | None = None):
        self._size = size
        self._last: tuple[float, float] | None = None
        self.total = 0.0

    def update(self, value: float, now_s: float) -> float | None:
        """Take the counter's value at a moment and return its growth per second.

        Returns None for the first value, and if the counter was reset, whose growth until then is not known.
        """
        last, self._last = self._last, (value, now_s)
        if last is None:
            return None
        growth = value - last[0]
        if growth < 0 and self._size is not None:
            growth += self._size
        if growth < 0 or now_s <= last[1]:
            return None
        self.total += growth
        return growth / (now_s - last[1])
