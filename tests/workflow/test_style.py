"""The project's own checks: ruff, snakefmt, snakemake --lint, and small files."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from project import ROOT

CHECKS = {
    "ruff check": ["ruff", "check", "."],
    "ruff format": ["ruff", "format", "--check", "."],
    "snakefmt": ["snakefmt", "--check", "Snakefile", "workflow/rules"],
    "lint": ["snakemake", "--lint"],
}


@pytest.mark.parametrize("check", CHECKS)
def test_clean(check):
    command = [sys.executable, "-m", *CHECKS[check]]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    result = subprocess.run(command, cwd=ROOT, env=os.environ | {"PATH": path}, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_files_stay_small():
    files = [*(ROOT / "workflow").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    assert {str(path) for path in files if len(path.read_text().splitlines()) > 300} == set()


def test_the_schema_describes_every_key_with_its_default():
    from howmanygpus.plan.config.schema import read_schema

    for schema in (read_schema("config"), read_schema("machine")):
        objects = [schema, *(rule for rule in schema["$defs"].values() if rule.get("type") == "object")]
        for rule in objects:
            for key, value in rule.get("properties", {}).items():
                is_reference_only = rule in (schema["$defs"].get("overrides"), schema["$defs"].get("exclusion"))
                assert is_reference_only or "description" in value or "$ref" in value, key
                assert is_reference_only or "default" in value or "$ref" in value or key in rule["required"], key
