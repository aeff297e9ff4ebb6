"""The table of docs/networks.md: published numbers beside ours, and the families that a network is written for."""

from dataclasses import dataclass

from howmanygpus.registry import FRAMEWORKS
from project import ROOT

DOCUMENT = ROOT / "docs" / "networks.md"


@dataclass(frozen=True)
class PublishedNetwork:
    """A row of the table. published_multiply_adds: None if nobody has published any."""

    name: str
    families: tuple[str, ...]
    image_shape: tuple[int, int, int]
    num_classes: int
    published_parameters: int
    parameters: int
    published_multiply_adds: float | None
    multiply_adds: int


def read_networks() -> dict[str, PublishedNetwork]:
    all_families = tuple(dict.fromkeys(entry.family for entry in FRAMEWORKS.values()))
    _, _, section = DOCUMENT.read_text().partition("\n## Published numbers beside ours\n")
    lines = section.partition("\n## ")[0].splitlines()
    rows = [line.strip("| \n").split(" | ") for line in lines if line.startswith("| `")]
    networks = {}
    for name, families, image, classes, *numbers in rows:
        known = [None if number == "-" else float(number.replace(",", "")) for number in numbers]
        networks[name.strip("`")] = PublishedNetwork(
            name.strip("`"),
            all_families if families == "all families" else tuple(families.split(", ")),
            tuple(map(int, image.split("x"))),
            int(classes),
            *known,
        )
    return networks
