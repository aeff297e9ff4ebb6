"""The table of findings is that of the scripts' heads, and each script has what `findings/run` needs."""

import subprocess
import sys

import pytest

from project import ROOT

FOLDER = ROOT / "findings"
FIELDS = ("Finding", "Packages", "Topic", "Source", "Guess", "Hurts", "Here")
pytestmark = pytest.mark.quick


def test_the_page_has_the_heads_of_all_scripts(tmp_path):
    copied = tmp_path / "findings"
    copied.mkdir()
    for path in FOLDER.iterdir():
        (copied / path.name).write_text(path.read_text())
    subprocess.run([sys.executable, str(copied / "run"), "--write"], check=True)
    assert (copied / "README.md").read_text() == (FOLDER / "README.md").read_text(), "findings/run --write"


@pytest.mark.parametrize("path", sorted(set(FOLDER.glob("*.sh")) - {FOLDER / "setup.sh"}), ids=lambda path: path.stem)
def test_a_script_has_a_whole_head_and_pinned_packages(path):
    head = [line for line in path.read_text().splitlines() if line.startswith("#")]
    for field in FIELDS:
        assert any(line.startswith(f"# {field}:") for line in head), field
    (packages,) = (line.split(":", 1)[1].split() for line in head if line.startswith("# Packages:"))
    assert packages and all("==" in package for package in packages)
