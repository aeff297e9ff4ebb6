"""Tables on disk: tab-separated with a header line; an undefined value is empty."""

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from howmanygpus.files import atomic_path


def write_table(path: Path, table: pd.DataFrame) -> None:
    """Write a table atomically; numbers get six significant digits."""
    with atomic_path(path) as partial:
        table.to_csv(partial, sep="\t", index=False, float_format="%.6g")


def read_table(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, sep="\t", keep_default_na=False, na_values=[""])


def read_answers(studies: Iterable[str], tables: Path = Path("results/tables")) -> dict[str, str]:
    """The answers that exist, by study."""
    paths = {study: tables / study / "answer.txt" for study in studies}
    return {study: path.read_text() for study, path in paths.items() if path.exists()}
