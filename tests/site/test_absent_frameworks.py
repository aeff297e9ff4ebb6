"""Tests of frameworks that a Python cannot have are skipped with the reason."""

import sys

import pytest


@pytest.mark.parametrize("name", ["mxnet-cpu", "chainer-cpu"])
def test_tests_of_frameworks_that_are_too_old_for_this_python_are_skipped(environment_record, monkeypatch, name):
    monkeypatch.setattr(sys, "version_info", (3, 13, 0, "final", 0))
    with pytest.raises(pytest.skip.Exception, match=rf"{name} needs Python 3\.\d+ or earlier: make .*PYTHON=python3"):
        environment_record(name)
