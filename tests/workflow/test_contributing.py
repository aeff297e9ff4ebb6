"""
CONTRIBUTING.md names every file that an extension touches.

A toy of each kind is added to a copy of the project with exactly the files that its section lists. A study then uses
the toy.
"""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from helpers.messages import says
from howmanygpus.prepare.sources import list_sources
from project import FAKES, ROOT, Project, study

PACKAGE = "workflow/lib/howmanygpus"
SETTINGS = f"{PACKAGE}/settings.py"
ROOMS = ("study", "prepare", "measure", "report", "site", "registry.py")
"""Paths that begin with these are below PACKAGE."""
SECTION = re.compile(r"^## (?:A|An) (?P<kind>.+?)\n(?P<text>.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"^- `(?P<path>[^`]+)`(?P<condition>, if )?", re.MULTILINE)
NAMES = {
    **{"framework": "toy", "family": "toys", "strategy": "toy", "environment": "toy-cpu", "model": "toy_net"},
    **{"layer": "toy_dense", "loader": "toy_loader", "source": "toy_shapes"},
    **{"table": "toy_table", "figure": "toy_figure", "metric": "toy_metric", "tool": "toy_tool"},
}
"""The values that replace <framework> and the other placeholders."""

REGISTRY_ENTRY = """
FRAMEWORKS["toy"] = Framework(
    family="toys",
    strategy="toy",
    launcher="plain",
    environments={"cpu": "toy-cpu"},
    precisions={"cpu": ("fp32",)},
)
"""
LOADER_ENTRY = '\nNATIVE_LOADERS["toys.toy_loader"] = NativeLoader(("threads",), description="the toys\' own loader")\n'
EXPORTER_ENTRY = 'TOOLS["toy_tool"] = "cat {folder}/runs.txt"\n\n\n'
ENTRY = """\
    "toy_setting": Setting(
        default=0, accepts={{"type": "integer"}}, doc="A toy.", gate={gate}, memory=False, work=True
    ),
"""

Edit = Callable[[str], str]


def append(addition: str) -> Edit:
    return lambda text: text + addition


def insert(addition: str, before: str) -> Edit:
    """Return an edit that inserts a line before the first line that begins with `before`."""

    def edit(text: str) -> str:
        assert re.search(rf"^{re.escape(before)}", text, re.MULTILINE), before
        return re.sub(rf"^{re.escape(before)}", lambda match: addition + match[0], text, count=1, flags=re.MULTILINE)

    return edit


def replace(old: str, new: str) -> Edit:
    def edit(text: str) -> str:
        assert text.count(old) == 1, old
        return text.replace(old, new)

    return edit


def declare(gate: str) -> Edit:
    """Return an edit that adds the toy key to the table of settings."""
    return insert(ENTRY.format(gate=gate), '    "optimizer": Setting(')


FOUND_BY = '\nIMPORTS["toy"], COUNTS["toy"] = "import toy as framework", "0"\n'
NEW, GENERATED = "new", "generated"
"""NEW is a file that is copied from tests/fakes/toys/; GENERATED is a file that `make references` writes."""
EXTENSIONS: dict[str, dict[str, str | Edit]] = {
    "framework": {
        "measure/frameworks/<family>/<strategy>.py": NEW,
        "registry.py": append(REGISTRY_ENTRY),
        "envs/<environment>.txt": NEW,
        "config/all_frameworks.yaml": replace("      - jax_sharding\n", "      - jax_sharding\n      - toy\n"),
        "howmanygpus_tools/check_gpu/overlay.py": append(FOUND_BY),
        "config/README.md": GENERATED,
        "profiles/README.md": GENERATED,
        "measure/frameworks/<family>/__init__.py": NEW,
        "measure/frameworks/<family>/family.py": NEW,
        "measure/frameworks/<family>/number_formats.py": NEW,
        "measure/frameworks/<family>/walker.py": NEW,
        "measure/frameworks/<family>/layers/<layer>.py": NEW,
    },
    "model": {
        "measure/networks/<model>.py": NEW,
        "docs/networks.md": insert("| `toy_net` | toys | 6x6x1 | 2 | 74 | - | - | 72 |\n", "| `resnet44` | all"),
        "config/README.md": GENERATED,
    },
    "layer": {
        "measure/models/layers/<layer>.py": NEW,
        "measure/frameworks/<family>/layers/<layer>.py": NEW,
        "measure/networks/<model>.py": NEW,
    },
    "key of the config": {
        SETTINGS: declare('not_gated("no framework looks at it")'),
        "measure/spec.py": insert("    toy_setting: int\n", "    optimizer: OptimizerSpec\n"),
        "config/README.md": GENERATED,
    },
    "table": {"report/tables/<table>.py": NEW},
    "figure": {
        "report/figures/<figure>.py": NEW,
        "workflow/report/captions/<figure>.rst": NEW,
        "docs/figures.md": GENERATED,
    },
    "metric": {"report/metrics/<metric>.py": NEW},
    "loader": {
        "measure/frameworks/<family>/<loader>.py": NEW,
        "study/loaders.py": append(LOADER_ENTRY),
        "registry.py": replace(
            'environments={"cpu": "toy-cpu"},', 'environments={"cpu": "toy-cpu"},\n    native_loader="toys.toy_loader",'
        ),
        "config/README.md": GENERATED,
    },
    "data set": {
        "prepare/sources/<source>.py": NEW,
        "config/README.md": insert("| `toy_shapes` | `num_train` |\n", "| `digits` |"),
    },
    "exporter": {
        "howmanygpus_tools/export/<tool>.py": NEW,
        "howmanygpus_tools/export/__init__.py": insert(EXPORTER_ENTRY, "def write("),
        "envs/<tool>.txt": NEW,
        "docs/export.md": insert("| Toy | `cat results/export/toy_tool/runs.txt` | a line |\n", "| MLflow |"),
    },
}
"""The changes of each toy, by file. The edits of one file are made in this order."""


def read_sections() -> dict[str, str]:
    """Return the text of each section of CONTRIBUTING.md that lists files, by kind of extension."""
    sections = {match["kind"]: match["text"] for match in SECTION.finditer((ROOT / "CONTRIBUTING.md").read_text())}
    return {kind: text for kind, text in sections.items() if FILE.search(text)}


def resolve(path: str) -> str:
    """Return a path of CONTRIBUTING.md with the toy's names, relative to the project's folder."""
    path = re.sub(r"<(\w+)>", lambda match: NAMES[match[1]], path)
    room = path.split("/")[0]
    return f"workflow/lib/{path}" if room == "howmanygpus_tools" else f"{PACKAGE}/{path}" if room in ROOMS else path


def add_toys(project: Project) -> None:
    specs = Path("tests", "helpers", "specs.py")
    (project.folder / specs.parent).mkdir(parents=True)
    shutil.copy2(ROOT / specs, project.folder / specs)
    shutil.copytree(ROOT / "docs", project.folder / "docs")
    for files in EXTENSIONS.values():
        for path, action in files.items():
            target = project.folder / resolve(path)
            if action == NEW:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(FAKES / "toys" / resolve(path).removeprefix(f"{PACKAGE}/"), target)
            elif action != GENERATED:
                target.write_text(action(target.read_text()))
    call_python(project, "-m", "howmanygpus_tools.references")


def call_python(project: Project, *arguments: str) -> str:
    environment = project.environment() | {"PYTHONPATH": f"{project.folder}/workflow/lib:{project.folder}/tests"}
    result = subprocess.run([sys.executable, *arguments], cwd=project.folder, env=environment, capture_output=True)
    assert result.returncode == 0, result.stderr.decode()
    return result.stdout.decode()


@pytest.fixture(scope="module")
def extended(tmp_path_factory) -> Project:
    """Return a copy with all toys, in which two studies that use them have run up to the toy figure."""
    folder = tmp_path_factory.mktemp("contributing")
    project = Project(folder / "project", fakes=["dozing"])
    add_toys(project)
    machine = {"environments": {"toy-cpu": {"python": sys.executable}}}
    (project.folder / "profiles" / "local" / "machine.yaml").write_text(yaml.safe_dump(machine))
    settings = {"dataset": "toy_shapes", "frameworks": ["toy"], "num_gpus": [1], "per_device_batch_size": [8]}
    settings |= {"quality": {"metric": "toy_metric", "thresholds": [4.0]}}
    variants = {"base": {}, "own": {"loader": "native", "toy_setting": 3}}
    toys, others = {"model": "toy_net", "variants": variants}, {"model": "small_cnn", "frameworks": ["dozing"]}
    project.write_config(toys=study(**settings | toys), others=study(**settings | others))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "HOWMANYGPUS_CACHE", str(folder / "cache"))
        project.snakemake("results/figures/toys/toy_figure.svg", "results/tables/others/runs.tsv")
    return project


def read_run(project: Project, variant: str) -> dict:
    path = f"results/runs/toys/toy/{variant}/arrays_fp32_cpu_gpus1_batch8_repeat1/run.json"
    return json.loads(project.read(path))


def test_the_toys_cover_every_section():
    assert set(EXTENSIONS) == set(read_sections())


@pytest.mark.parametrize("kind", EXTENSIONS)
def test_a_toy_touches_exactly_the_files_that_its_section_lists(kind):
    listed = {match["path"]: bool(match["condition"]) for match in FILE.finditer(read_sections()[kind])}
    always = {path for path, is_conditional in listed.items() if not is_conditional}
    assert always <= set(EXTENSIONS[kind]) <= set(listed)


@pytest.mark.parametrize("kind", EXTENSIONS)
def test_files_that_a_section_says_to_edit_or_to_run_exist(kind):
    edited = [path for path, action in EXTENSIONS[kind].items() if action != NEW]
    checks = re.findall(r"`(tests/[^`]+)`", read_sections()[kind].partition("\nCheck: ")[2])
    assert checks, f"the section on a {kind} names no check"
    for path in [*edited, *checks]:
        assert (ROOT / resolve(path)).exists(), path


def test_a_framework_a_model_and_a_data_set_are_trained(extended):
    run = read_run(extended, "base")
    assert run["status"] == "completed" and run["versions"] == {"toy": "1.0"}
    assert run["spec"]["strategy"] == "toy" and run["spec"]["model"] == "toy_net"
    assert "howmanygpus/measure/networks/toy_net.py" in run["code"]
    assert "- toy\n" in extended.read("config/all_frameworks.yaml")
    description = json.loads(extended.read("results/prepared/toy_shapes/arrays/dataset.json"))
    assert (description["image_shape"], description["num_train"]) == ([6, 6, 1], 40)


def test_a_key_reaches_the_run_and_the_tests(extended):
    settings = [read_run(extended, variant)["spec"]["toy_setting"] for variant in ("base", "own")]
    assert settings == [0, 3]
    assert call_python(extended, "-c", "from helpers import specs; print(specs.make_spec().toy_setting)") == "0\n"


def test_a_loader_feeds_the_runs_that_ask_for_it(extended):
    loader = "howmanygpus/measure/frameworks/toys/toy_loader.py"
    assert loader in read_run(extended, "own")["code"] and loader not in read_run(extended, "base")["code"]


def test_a_metric_judges_and_a_table_and_a_figure_show(extended):
    rows = list(csv.DictReader(extended.read("results/tables/toys/runs.tsv").splitlines(), delimiter="\t"))
    assert {row["quality_metric"] for row in rows} == {"toy_metric"}
    assert all(0 <= float(row["quality_last"]) < 10 for row in rows)
    rows = list(csv.DictReader(extended.read("results/tables/toys/toy_table.tsv").splitlines(), delimiter="\t"))
    assert {row["variant"] for row in rows} == {"base", "own"}
    assert "images/s of toys" in extended.read("results/figures/toys/toy_figure.svg")


def test_an_exporter_writes_the_runs_in_an_environment_of_its_own(extended):
    printed = call_python(extended, "-m", "howmanygpus_tools.export", "--to", "toy_tool", "--study", "toys")
    assert says(printed, "2 runs", "cat results/export/toy_tool/runs.txt")
    assert len(extended.read("results/export/toy_tool/runs.txt").splitlines()) == 2


def test_a_changed_layer_reruns_the_models_that_import_it_and_their_products(extended):
    layer = f"{PACKAGE}/measure/frameworks/toys/layers/toy_dense.py"
    extended.replace(layer, SCALE=2.0)
    try:
        planned = extended.planned()
    finally:
        extended.replace(layer, SCALE=1.0)
    assert {job.split("/")[0] for job in planned if "/" in job} == {"toys"}
    assert {"make_tables toys", "draw_figures_of_toys toys"} <= set(planned)
    assert "make_tables others" not in planned


def test_the_documentation_has_the_toys(extended):
    keys, profiles = extended.read("config/README.md"), extended.read("profiles/README.md")
    assert "| `toy_setting` | integer | `0` | A toy. |" in keys
    assert (
        "| `toy` | one for all devices (`plain`) | `toy-cpu` |" in keys and "| the toys' own loader | `toy` |" in keys
    )
    assert "`toy`" in profiles and "| `toy_net` | - |" in keys


def test_every_data_set_is_in_the_table_of_sources():
    table = (ROOT / "config" / "README.md").read_text()
    assert [source for source in list_sources() if f"\n| `{source}` |" not in table] == []
