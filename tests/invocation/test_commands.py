"""The beginning of the rules' commands gives the steps the workflow's library, and no folder beside it."""

import os
import subprocess
import sys

import pytest

from howmanygpus.clone import LIBRARY
from howmanygpus.invocation import commands


@pytest.mark.parametrize("path", [None, "", "/site/a:/site/b"], ids=["unset", "empty", "set"])
@pytest.mark.parametrize("is_own", [True, False])
def test_an_unset_path_adds_no_folder(monkeypatch, path, is_own):
    """An empty entry of PYTHONPATH is the folder of the call, whose files would shadow modules."""
    monkeypatch.setattr(commands, "has_own_snakemake", lambda: is_own)
    variables = commands.begin_command().split(sys.executable)[0]
    given = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    given |= {} if path is None else {"PYTHONPATH": path}
    printed = subprocess.run(
        ["bash", "-c", f"{variables} printenv PYTHONPATH"], env=given, capture_output=True, text=True
    )
    assert printed.stdout.strip() == (f"{LIBRARY}:{path}" if path and not is_own else str(LIBRARY))
