"""Benchmarks need no more than `make demo` installs."""

import re
import subprocess
import sys

from project import ROOT

BENCHMARKS = ROOT / "benchmarks"
ASK_EACH = """
import runpy, sys
sys.modules |= dict.fromkeys({left_out})
sys.path.insert(0, {folder!r})
for script in {scripts}:
    sys.argv = [script, "--help"]
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        assert not end.code, script
"""


def test_every_benchmark_starts_without_the_packages_of_the_tests():
    pins = (ROOT / "envs" / "development.txt").read_text()
    left_out = [name.replace("-", "_").lower() for name in re.findall(r"^([\w-]+)==", pins, re.MULTILINE)]
    scripts = [str(path) for path in sorted(BENCHMARKS.glob("*.py")) if "write_benchmark(" in path.read_text()]
    scripts = [script for script in scripts if not script.endswith("reporting.py")]
    assert "pytest" in left_out and len(scripts) > 5
    code = ASK_EACH.format(left_out=left_out, folder=str(BENCHMARKS), scripts=scripts)
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr[-1000:]
