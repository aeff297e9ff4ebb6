"""Results of version 0.1 are refused, and looking for them is cheap."""

import os
from pathlib import Path

import pytest

from howmanygpus.train.start.settling import OlderResultsError, refuse_older_results

RUN = Path("study", "framework", "base", "cell")


@pytest.mark.parametrize("file", [".publishing.lock", "20260101T000000-7/attempt.json"])
def test_attempts_of_version_0_1_are_refused_with_the_remedy(tmp_path, file):
    path = tmp_path / RUN / file
    path.parent.mkdir(parents=True)
    path.touch()
    with pytest.raises(OlderResultsError, match=rf"{tmp_path / RUN} was written by version 0\.1.*mv results results-0"):
        refuse_older_results(tmp_path)


@pytest.mark.parametrize("file", ["cell.log", "cell/notes.txt"])
def test_logs_and_other_folders_are_not_attempts(tmp_path, file):
    path = tmp_path / RUN.parent / file
    path.parent.mkdir(parents=True)
    path.touch()
    refuse_older_results(tmp_path)
    refuse_older_results(tmp_path / "missing")


def test_each_folder_of_logs_is_listed_once(tmp_path, monkeypatch):
    for framework in range(20):
        folder = tmp_path / "study" / str(framework) / "base"
        folder.mkdir(parents=True)
        for cell in range(50):
            (folder / f"{cell}.log").touch()
    listed, scandir = [], os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: listed.append(str(path)) or scandir(path))
    refuse_older_results(tmp_path)
    assert len(listed) == len(set(listed)) == 42
