"""Folders for tests that announce calls of Snakemake."""

from pathlib import Path

import pytest

from howmanygpus.train.start import calls


def work_without_calls(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a folder outside of any call, where files of announced calls stay; return the folder."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(calls.atexit, "register", lambda *_, **__: None)
    monkeypatch.setenv(calls.VARIABLE, "none")
    return folder
