"""Tables on disk: tab-separated with a header line; an undefined value is empty. Answers and figures for the report."""

import base64
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from howmanygpus.files import atomic_path
from howmanygpus.paths import ATTEMPTS, FIGURES, RUNS, TABLES


def write_table(path: Path, table: pd.DataFrame) -> None:
    """Write a table atomically; numbers get six significant digits."""
    with atomic_path(path) as partial:
        table.to_csv(partial, sep="\t", index=False, float_format="%.6g")


TEXTS = ("nodes", "device_model", "left_out")
"""Columns of names that stay texts if all of them look like a number, as the label `3` or the host `41e706` do."""
COUNTS = {"parity": {"nodes"}}
"""Columns with these names that are numbers nevertheless, by the name of the table."""


def read_table(path: Path) -> pd.DataFrame:
    texts = dict.fromkeys(set(TEXTS) - COUNTS.get(Path(path).stem, set()), str)
    return pd.read_csv(path, sep="\t", keep_default_na=False, na_values=[""], dtype=texts)


def read_texts(path: Path) -> pd.DataFrame:
    """Read a table with all values as they are written; an undefined one is an empty text."""
    return pd.read_csv(path, sep="\t", dtype=str, na_filter=False)


def find_record(run: str, results: Path = Path()) -> Path | None:
    """Return the record of a run, or of the last attempt at it, below a folder that holds `results/`; None without any.

    run: its path below results/runs/.
    """
    record = RUNS / run / "run.json"
    if (results / record).exists():
        return record
    attempts = sorted((results / ATTEMPTS / run).glob("*/attempt.json"))
    return attempts[-1].relative_to(results) if attempts else None


TOGETHER = "All studies, with each shared job counted once:"
"""Heading of the bill of all studies, at the end of the answers."""
FIRST = "decision"
"""The figure of each study that the report's first page shows."""


def read_first_page(studies: Iterable[str], arguments: list[str]) -> dict:
    """Return the results on the report's first page. arguments: Snakemake's."""
    return {"answers": read_answers(studies), "figures": read_figures(studies, arguments), "bill": read_bill()}


def read_bill(answers: Path = TABLES / "answer.txt") -> str:
    """Return the bill of all studies with its heading; empty if there is one study, or no answer yet."""
    _, heading, bill = answers.read_text().partition(TOGETHER) if answers.exists() else ("", "", "")
    return heading + bill


def read_answers(studies: Iterable[str], tables: Path = TABLES) -> dict[str, str]:
    """Return the text of each answer that exists, by study."""
    paths = {study: tables / study / "answer.txt" for study in studies}
    return {study: path.read_text() for study, path in paths.items() if path.exists()}


def read_figures(studies: Iterable[str], arguments: list[str], figures: Path = FIGURES) -> dict[str, str]:
    """Return the existing figures of the report's first page, by study, as data URLs that are broken into lines.

    docutils refuses lines of 10,000 characters, and browsers ignore line breaks in URLs. arguments: Snakemake's.
    Nothing is read unless they ask for the report.
    """
    if not any(argument.split("=")[0] == "--report" for argument in arguments):
        return {}
    paths = {study: figures / study / f"{FIRST}.svg" for study in studies}
    encoded = {study: base64.encodebytes(path.read_bytes()) for study, path in paths.items() if path.exists()}
    return {study: f"data:image/svg+xml;base64,{text.decode().strip()}" for study, text in encoded.items()}
