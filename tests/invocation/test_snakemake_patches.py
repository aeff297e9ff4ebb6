"""Patches are applied once, only to the functions that they were written for, and other versions are named."""

import functools
import re

import pytest
import snakemake.api  # noqa: F401  (snakemake.dag cannot be imported before it)
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from snakemake import report
from snakemake.dag import DAG
from snakemake_interface_common.exceptions import WorkflowError

from howmanygpus.invocation import executor, failing, interrupting, job_states, patches, versions
from howmanygpus.site.environments.pins import read_requirements
from project import ROOT

PATCHES = [(DAG, "bfs"), (DAG, "update_needrun"), (report, "auto_report")]
"""The places of the functions that are replaced."""
each_patch = pytest.mark.parametrize(("owner", "name"), PATCHES, ids=[name for _, name in PATCHES])


@pytest.fixture(autouse=True)
def upstream(monkeypatch):
    """Start each test with the packages' own functions, and restore them after it."""
    for owner, name in PATCHES:
        function = getattr(owner, name)
        assert not hasattr(function, versions.MARK)
        monkeypatch.setattr(owner, name, function)


def test_an_older_snakemake_is_refused_with_the_range_and_the_remedy(monkeypatch):
    assert versions.find_unfit() == ""
    monkeypatch.setattr(versions, "version", lambda each: "9.22.0")
    words = versions.find_unfit()
    assert "9.22.0" in words and f"pip install 'snakemake{versions.TESTED['snakemake']}'" in words


def test_a_python_without_what_the_steps_need_is_refused_with_the_remedy(monkeypatch):
    monkeypatch.setattr(versions, "NEEDED", (*versions.NEEDED, "absent_here"))
    words = versions.find_unfit()
    assert "has no absent_here" in words and "pip install -r" in words and "requirements.txt" in words


@pytest.mark.parametrize("package", versions.TESTED)
def test_a_newer_version_is_named_with_the_remedy(monkeypatch, package):
    assert versions.list_untested() == []
    installed = versions.version
    monkeypatch.setattr(versions, "version", lambda each: "10.1.0" if each == package else installed(each))
    assert versions.find_unfit() == ""
    (words,) = versions.list_untested()
    assert f"{package} 10.1.0" in words and versions.TESTED[package] in words and "envs/workflow.txt" in words


def read_pins() -> dict[str, str]:
    pins = map(Requirement, read_requirements(ROOT / "envs" / "workflow.txt"))
    return {pin.name: str(pin.specifier).removeprefix("==") for pin in pins}


def test_the_requirements_of_a_site_have_the_tested_ranges_and_fit_the_pins():
    asked = {each.name: each.specifier for each in map(Requirement, read_requirements(ROOT / "requirements.txt"))}
    for package, tested in versions.TESTED.items():
        assert asked[package] == SpecifierSet(tested)
    pins = read_pins()
    assert asked.keys() == pins.keys() and not [name for name, pin in pins.items() if pin not in asked[name]]


def test_the_pinned_versions_are_tested_ones():
    pins = read_pins()
    for package, tested in versions.TESTED.items():
        assert SpecifierSet(tested).contains(pins[package])


@each_patch
def test_a_patch_that_is_applied_twice_is_applied_once(owner, name):
    before = getattr(owner, name)
    patches.apply()
    once = getattr(owner, name)
    patches.apply()
    assert getattr(owner, name) is once and once.__wrapped__ is before


def decorate(function):
    """Decorate a function as another library might."""

    @functools.wraps(function)
    def decorated(*arguments, **options):
        return function(*arguments, **options)

    return decorated


@each_patch
def test_a_function_that_is_decorated_already_is_patched(monkeypatch, owner, name):
    decorated = decorate(getattr(owner, name))
    monkeypatch.setattr(owner, name, decorated)
    patches.apply()
    assert hasattr(getattr(owner, name), versions.MARK) and getattr(owner, name).__wrapped__ is decorated


@each_patch
def test_a_patch_below_the_decorator_of_another_library_is_enough(monkeypatch, owner, name):
    patches.apply()
    decorated = decorate(getattr(owner, name))
    monkeypatch.setattr(owner, name, decorated)
    patches.apply()
    assert getattr(owner, name) is decorated


@each_patch
@pytest.mark.parametrize("foreign", [lambda self, others: None, "no function", None])
def test_a_foreign_function_is_refused(monkeypatch, owner, name, foreign):
    monkeypatch.setattr(owner, name, foreign)
    with pytest.raises(WorkflowError, match=rf"{owner.__name__}\.{name} is .*envs/workflow\.txt"):
        patches.apply()
    assert getattr(owner, name) is foreign


@pytest.mark.parametrize("module", [patches, interrupting, job_states, failing, executor])
def test_a_module_and_the_page_for_the_maintainers_name_the_same_issues(module):
    name = module.__name__.rpartition(".")[2]
    page = (ROOT / "docs" / "upstream.md").read_text()
    assert f"[`{name}.py`](#{name})" in page
    section = page.split(f"\n## {name}\n")[1].split("\n## ")[0]
    issues = re.findall(r"https://github.com/\S+/(?:issues|pull)/\d+", module.__doc__)
    assert all(issue in section for issue in issues) and (issues or "We found no issue" in section)
    assert "Upstream: " in module.__doc__
