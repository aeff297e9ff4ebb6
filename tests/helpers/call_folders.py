"""Folders for tests that announce calls of Snakemake."""

from pathlib import Path

import pytest

from howmanygpus.site.jobs import invocations


def work_without_calls(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a folder outside of any call, where files of announced calls stay; return the folder."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(invocations.atexit, "register", lambda *_, **__: None)
    monkeypatch.setenv(invocations.VARIABLE, "none")
    return folder
