"""
Columns that name a run: each once, in the order in which tables have them.

Tables, figures and answers take what they group by from here, by level, such as `list_columns(SERIES, PLACE)`. What a
table compares is left out by name. A new axis of the grid is one more entry, and no table averages over it.
"""

from collections.abc import Collection
from dataclasses import dataclass

STUDY, TASK, SERIES, PLACE, BATCH, UNIT, REPEAT = "study", "task", "series", "place", "batch", "unit", "repeat"
LEVELS = (STUDY, TASK, SERIES, PLACE, BATCH, UNIT, REPEAT)
"""Levels of columns. A series is a line of a figure, and a place is what it runs on."""

FEWEST_NODES = "fewest nodes"
"""The column `placement` of studies without the key `num_nodes`; others name the number of nodes there."""


@dataclass(frozen=True)
class Column:
    """A column that names a run. title: its header on pages; kind: type of its values; meaning: in one sentence."""

    name: str
    level: str
    title: str
    kind: type
    meaning: str


COLUMNS = (
    Column("study", STUDY, "study", str, "Name of the study in the config."),
    Column("dataset", TASK, "data set", str, "Name of the data set; that of the program for a program."),
    Column("model", TASK, "network", str, "Name of the network."),
    Column("framework", SERIES, "framework", str, "Framework and its strategy, such as `pytorch_ddp`."),
    Column("variant", SERIES, "variant", str, "Name of the variant; `base` without variants."),
    Column(
        "input",
        SERIES,
        "input",
        str,
        "Form of the images: an entry of `inputs`; `program` for a program.",
    ),
    Column("precision", SERIES, "precision", str, "Number format of the products, such as `bf16`."),
    Column("device", SERIES, "device", str, "Name of the device in the machine file."),
    Column("placement", PLACE, "placement", str, "Number of nodes in words if the study names it."),
    Column("num_nodes", PLACE, "nodes", int, "Number of nodes."),
    Column("num_gpus", PLACE, "devices", int, "Number of devices over all nodes."),
    Column("per_device_batch_size", BATCH, "batch per device", int, "Units that a device computes at once."),
    Column("global_batch_size", BATCH, "batch", int, "Units of one step, over all devices and accumulated batches."),
    Column("unit", UNIT, "unit", str, "What batches and rates count, in the plural: images, or what a program says."),
    Column("repeat", REPEAT, "repeat", int, "Number of the repeat, from 1."),
    Column("seed", REPEAT, "seed", int, "Seed of the run."),
)
TITLES = {column.name: column.title for column in COLUMNS}


def list_columns(*levels: str, but: Collection[str] = ()) -> list[str]:
    """Return the names of the columns of some levels, in the order of tables. but: names that are left out."""
    return [column.name for column in COLUMNS if column.level in levels and column.name not in but]


IDENTITY = list_columns(*LEVELS)
"""Columns that name one run."""
CONFIGURATION = [name for name in IDENTITY if name not in list_columns(REPEAT)]
"""Columns that all repeats of a configuration share."""
CURVE = list_columns(STUDY, TASK, SERIES, UNIT)
"""Columns that all configurations of a curve over devices and batches share."""
FIXED = {"weak": "per_device_batch_size", "strong": "global_batch_size"}
"""The batch size that each scaling mode keeps constant along a curve."""
LINE = [*CURVE, "scaling_mode", "fixed_batch_size"]
"""Columns of the table `scaling` that a configuration shares with its baseline."""
SAME_PLACE = [*CURVE, *list_columns(PLACE)]
"""Columns that the batches of a curve on the same devices share."""
SEARCHED = list_columns(SERIES, but=["input"])
"""Columns on which the largest batch depends."""
POINT = list_columns(PLACE, BATCH)
"""Columns in which the configurations of a curve differ."""
