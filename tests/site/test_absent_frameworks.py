"""Tests of frameworks that no Python of a machine can have are skipped with the reason."""

import sys

import pytest


@pytest.mark.parametrize("name", ["mxnet-cpu", "chainer-cpu"])
def test_tests_of_frameworks_that_no_python_here_can_have_are_skipped(environment_record, monkeypatch, tmp_path, name):
    monkeypatch.setattr(sys, "version_info", (3, 13, 0, "final", 0))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", str(tmp_path))
    with pytest.raises(pytest.skip.Exception, match=rf"{name}.*: its pins have builds for Python 3\.\d+ and older"):
        environment_record(name)
