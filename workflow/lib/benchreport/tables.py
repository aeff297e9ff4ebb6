"""Tables on disk: tab-separated, a header line, empty where undefined; they appear whole or not at all."""

import os
from pathlib import Path

import pandas as pd


def write_table(path: Path, table: pd.DataFrame) -> None:
    partial = Path(path).with_name(f".{Path(path).name}.{os.getpid()}")
    table.to_csv(partial, sep="\t", index=False, float_format="%.6g")
    os.replace(partial, path)


def read_table(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, sep="\t", keep_default_na=False, na_values=[""])
