"""Where the config gives a setting of a study."""


def locate(key: str, place: str, variant: str, given: dict) -> str:
    """Return the place of a setting: in the variant if the config gives it there, or else in the study."""
    return f"{place}.variants.{variant}.{key}" if key in given[variant] else f"{place}.{key}"
