"""Limits as SLURM writes them."""


def to_minutes(limit: str | None) -> float:
    """Return the minutes of [days-]hours:minutes:seconds; infinity for anything else, such as UNLIMITED."""
    days, _, rest = (limit or "").rpartition("-")
    parts = rest.split(":")
    if len(parts) != 3 or not all(part.isdigit() for part in parts):
        return float("inf")
    hours, minutes, seconds = map(int, parts)
    return int(days or 0) * 1440 + hours * 60 + minutes + seconds / 60
