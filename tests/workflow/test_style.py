"""The project's files follow its own rules of style. `make check` runs the linters."""

import ast
import tomllib

import pytest

from project import ROOT

pytestmark = pytest.mark.quick
REFERENCES = ("overrides", "exclusion", "augmentation")
"""Parts of the schema whose keys are those of a study again."""


def test_no_script_is_imported():
    names = [path.stem for path in (ROOT / "workflow" / "scripts").glob("*.py")]
    files = [path for top in ("workflow", "benchmarks", "tests") for path in (ROOT / top).rglob("*.py")]
    for path in files:
        imported = [line for line in path.read_text().splitlines() if line.startswith(("import ", "from "))]
        assert not [line for line in imported if line.split()[1] in names and line.split()[1] != "train"], path


def test_the_schema_describes_every_key_with_its_default():
    from howmanygpus.config.schema import read_schema

    for schema in (read_schema("config"), read_schema("machine")):
        objects = [schema, *(rule for rule in schema["$defs"].values() if rule.get("type") == "object")]
        for rule in objects:
            required = [*rule.get("required", []), *rule.get("else", {}).get("required", [])]
            for key, value in rule.get("properties", {}).items():
                is_reference_only = rule in [schema["$defs"].get(name) for name in REFERENCES]
                assert is_reference_only or "description" in value or "$ref" in value, key
                assert is_reference_only or "default" in value or "$ref" in value or key in required, key


def test_files_of_tests_may_have_the_same_name_in_different_folders():
    """pytest would import files by their names alone, and stop at the second one of a name. All run in one call."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["addopts"]
    assert len(set(names)) == len(names) or "--import-mode=importlib" in options.split()


def test_no_benchmark_imports_a_test():
    shared = ROOT / "tests" / "sandbox"
    names = {path.stem for path in (ROOT / "tests").rglob("*.py") if not path.is_relative_to(shared)}
    for path in (ROOT / "benchmarks").rglob("*.py"):
        imported = [line.split()[1] for line in path.read_text().splitlines() if line.startswith(("import ", "from "))]
        assert not names & {name.partition(".")[0] for name in imported}, path


def test_slurm_has_one_client():
    """A command is the first word of a list, or the first argument of a call."""
    commands = {"sbatch", "squeue", "sacct", "scontrol", "sinfo", "sacctmgr", "scancel"}
    library = ROOT / "workflow" / "lib" / "howmanygpus"
    others = {*(ROOT / "workflow").rglob("*.py")} - {library / "site" / "slurm.py"}
    for path in others:
        for node in ast.walk(ast.parse(path.read_text())):
            words = getattr(node, "elts", None) or getattr(node, "args", None)
            first = words[0] if isinstance(words, list) and words else None
            assert not (isinstance(first, ast.Constant) and first.value in commands), f"{path}:{first.lineno}"
