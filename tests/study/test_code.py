"""Each step depends on the right code."""

import shutil
import textwrap

import pytest

from howmanygpus.registry import FRAMEWORKS
from howmanygpus.study.invalidation import code, syntax
from project import ROOT


@pytest.fixture(autouse=True)
def in_project(monkeypatch):
    monkeypatch.chdir(ROOT)


LIBRARY = str(ROOT / "workflow" / "lib" / "howmanygpus")
REPORTING = (
    "list_jobs",
    "write_planned",
    "make_tables",
    "merge_tables",
    "answer_question",
    "merge_answers",
    "draw_figures",
    "draw_preparation",
    "draw_run",
    "write_all_runs",
    "write_table_pages",
    "tabulate_probes",
    "check_parity",
    "write_parity_page",
)
"""Scripts that make tables, figures, answers and verdicts."""


def name_files(files) -> set[str]:
    """Return the files' paths relative to the room `measure`."""
    return {str(file).removeprefix(f"{LIBRARY}/measure/") for file in files}


def test_a_run_depends_on_its_own_strategy_and_family_alone():
    torch, keras = (
        name_files(code.collect_training_code(name, "resnet44")) for name in ("pytorch_ddp", "keras_mirrored")
    )
    only_torch, only_keras = torch - keras, keras - torch
    assert {"frameworks/torch/ddp.py", "frameworks/torch/family.py", "frameworks/torch/walker.py"} <= only_torch
    assert {"frameworks/keras/fit_mirrored.py", "frameworks/keras/fit.py", "frameworks/keras/walker.py"} <= only_keras
    assert not [
        file for file in torch if "keras" in file or file.endswith("torch/dp.py") or file.endswith("/loader.py")
    ]
    assert not [file for file in keras if "torch" in file]
    assert {"loop/loop.py", "launch/launch.py", "host/processes.py", "networks/resnet44.py"} <= torch & keras
    assert f"{LIBRARY}/files.py" in code.collect_training_code("pytorch_ddp", "resnet44")


def test_a_run_depends_on_its_frameworks_own_loader_only_where_it_uses_it():
    shared, native = (
        name_files(code.collect_training_code("tensorflow_mirrored", "small_cnn", loader))
        for loader in ("shared", "native")
    )
    assert native - shared == {"frameworks/keras/tf_data.py"}
    shared, native = (
        name_files(code.collect_training_code("pytorch_ddp", "small_cnn", loader)) for loader in ("shared", "native")
    )
    assert native - shared == {
        "frameworks/torch/loader.py",
        "input/training_items.py",
        "input/workers.py",
    }
    dali = name_files(code.collect_training_code("pytorch_ddp", "small_cnn", "dali"))
    assert dali - shared == {"frameworks/torch/dali.py"} and shared <= dali


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_run_depends_on_its_frameworks_profiler_only_if_it_is_traced(framework):
    """Chainer has none."""
    family = FRAMEWORKS[framework].family
    plain, traced = (
        name_files(code.collect_training_code(framework, "small_cnn", is_traced=each)) for each in (False, True)
    )
    assert traced - plain == ({f"frameworks/{family}/profiler.py"} if family != "chainer" else set())


def test_a_run_does_not_depend_on_planning_analysis_or_another_model():
    files = code.collect_training_code("pytorch_ddp", "small_cnn")
    rooms = tuple(f"{LIBRARY}/{name}" for name in ("measure/", "files.py"))
    assert not [file for file in files if not file.startswith(rooms)]
    assert not [file for file in files if "resnet44" in file]
    assert not [
        file for file in files if file.endswith(("endings.py", "completing.py", "invocations.py", "attempts.py"))
    ]


@pytest.mark.parametrize("script", REPORTING)
def test_report_scripts_do_not_depend_on_planning_code(script):
    """The import contracts do not see scripts. A change of how runs are planned would make every table again."""
    assert not [file for file in code.collect_script_code(script) if file.startswith(f"{LIBRARY}/study/")]


def test_a_figure_does_not_depend_on_another():
    files = code.collect_script_code("draw_figures", "report.figures.speedup")
    assert f"{LIBRARY}/report/thresholds.py" in files
    assert not [file for file in files if file.endswith("run_grid.py")]


BEFORE = """
LIMIT = 3


def count(items):
    return min(len(items), LIMIT)
"""


@pytest.mark.parametrize(
    "after",
    [
        '"""What this file is for."""\n' + BEFORE,
        BEFORE + "\n# A remark.\n",
        BEFORE.replace("LIMIT = 3\n", 'LIMIT = 3\n"""The most that count."""\n'),
        BEFORE.replace("(items):\n", '(items):\n    """Number of items."""\n'),
        BEFORE.replace("len(items), LIMIT", "\n        len(items),\n        LIMIT,\n    "),
    ],
    ids=["docstring", "comment", "constant's documentation", "function's docstring", "line breaks"],
)
def test_comments_and_docstrings_change_no_hash(after, tmp_path):
    assert hash_text(tmp_path, BEFORE) == hash_text(tmp_path, after)


@pytest.mark.parametrize(
    "after",
    [
        BEFORE.replace("LIMIT = 3", "LIMIT = 4"),
        BEFORE.replace("(items)", "(items=())"),
        BEFORE.replace("def", "@cache\ndef"),
        BEFORE.replace("LIMIT = 3", 'LIMIT = "3"'),
    ],
    ids=["constant", "default", "decorator", "string"],
)
def test_executed_code_changes_the_hash(after, tmp_path):
    assert hash_text(tmp_path, BEFORE) != hash_text(tmp_path, after)


def hash_text(folder, text) -> bytes:
    path = folder / "code.py"
    path.write_text(text)
    syntax.read_code.cache_clear()
    return syntax.read_code(path).digest


EVERYWHERE = """
import howmanygpus.measure.spec
try:
    from howmanygpus.measure.input import prepared
except ImportError:
    from howmanygpus.measure.loop import loop
else:
    from howmanygpus.measure.input import draws
finally:
    from howmanygpus.measure.input import batches

class Something:
    def method(self):
        with open("file") as file:
            for line in file:
                from howmanygpus.measure import records
            else:
                from howmanygpus.measure.host import processes

match 1:
    case 1:
        from howmanygpus.measure.host.slurm import read_job
"""


def test_imports_are_found_wherever_they_stand(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(EVERYWHERE)
    names = ("spec", "input/prepared", "loop/loop", "input/draws", "input/batches", "records")
    names += ("host/processes", "host/slurm")
    found = name_files(code.imported_files(path))
    assert {f"{name}.py" for name in names} == {file for file in found if not file.endswith("__init__.py")}


PACKAGE = {
    "measure/start.py": """
        import sys
        from howmanygpus.measure.loop import run
        from howmanygpus.measure.clock import now

        def start(value):
            assert value, "there is no value"
            if value > 1:
                print(f"{value} is large", file=sys.stderr)
                raise ValueError(f"{value} is too large, the most is " + "1")
            return [sys.executable, "-m", "howmanygpus.measure.clock", run(value, now())]
        """,
    "measure/loop.py": """
        def run(value, moment):
            return value
        """,
    "measure/clock.py": """
        def now():
            return 0
        """,
    "measure/other.py": """
        def now():
            return 1
        """,
}


@pytest.fixture
def hash_package(tmp_path, monkeypatch):
    """Return a function that writes a package with changes, and returns the hash of the code of measure/start.py."""

    def write(changes, folder="measure"):
        library = tmp_path / "lib"
        for module in (code, syntax):
            monkeypatch.setattr(module, "LIBRARY", library)
        shutil.rmtree(library, ignore_errors=True)
        for path, text in PACKAGE.items():
            for old, new in changes.get(path, []):
                assert old in text
                text = text.replace(old, new)
            file = library / "howmanygpus" / path.replace("measure/", f"{folder}/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(
                textwrap.dedent(text).replace("howmanygpus.measure", f"howmanygpus.{folder.replace('/', '.')}")
            )
        for cached in (syntax.read_code, syntax.module_file, code.imported_files):
            cached.cache_clear()
        return syntax.hash_files(code.find_measured_code(f"{folder.replace('/', '.')}.start"))

    yield write
    for cached in (syntax.read_code, syntax.module_file, code.imported_files):
        cached.cache_clear()


def test_code_that_moves_to_another_folder_has_the_same_hash(hash_package):
    assert hash_package({}) == hash_package({}, "measure/runs")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("is too large, the most is", "exceeds"),
        ('"1"', '"one"'),
        ("is large", "is rather large"),
        ("there is no value", "no value"),
    ],
)
def test_the_text_of_a_message_changes_no_hash(hash_package, old, new):
    assert hash_package({"measure/start.py": [(old, new)]}) == hash_package({})


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("measure/loop.py", "return value", "return 2 * value"),
        ("measure/clock.py", "return 0", "return 1"),
        ("measure/start.py", "ValueError", "TypeError"),
        ("measure/start.py", "measure.clock import", "measure.other import"),
        ("measure/start.py", '"howmanygpus.measure.clock"', '"howmanygpus.measure.loop"'),
        ("measure/start.py", "import now", "import now as earlier"),
        ("measure/start.py", '"-m"', '"-c"'),
    ],
)
def test_other_work_and_another_module_in_its_place_change_the_hash(hash_package, file, old, new):
    assert hash_package({file: [(old, new)]}) != hash_package({})


def test_each_module_that_is_left_out_of_hashes_exists():
    assert all(map(code.module_file, code.UNMEASURED))
