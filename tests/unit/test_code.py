"""Each step depends on the right code."""

import pytest

from howmanygpus.plan.invalidation import code, syntax
from project import ROOT


@pytest.fixture(autouse=True)
def in_project(monkeypatch):
    monkeypatch.chdir(ROOT)


LIBRARY = "workflow/lib/howmanygpus"
REPORTING = (
    *("list_jobs", "write_decision", "make_tables", "merge_tables", "answer_question", "merge_answers"),
    *("draw_figures", "draw_preparation", "tabulate_probes", "check_parity", "write_parity_page"),
)
"""Scripts that make tables, figures, answers and verdicts."""


def name_files(files) -> set[str]:
    """Return the files' paths relative to the package `train`."""
    return {str(file).removeprefix(f"{LIBRARY}/train/") for file in files}


def test_a_run_depends_on_its_own_strategy_and_family_alone():
    torch, keras = (name_files(code.find_training_code(name, "resnet44")) for name in ("pytorch_ddp", "keras_mirrored"))
    only_torch, only_keras = torch - keras, keras - torch
    assert {"frameworks/torch/ddp.py", "frameworks/torch/family.py", "models/resnet44/torch.py"} <= only_torch
    assert {"frameworks/keras/fit_mirrored.py", "frameworks/keras/fit.py", "models/resnet44/keras.py"} <= only_keras
    assert not [
        file for file in torch if "keras" in file or file.endswith("torch/dp.py") or file.endswith("/loader.py")
    ]
    assert not [file for file in keras if "torch" in file]
    assert {"loop/loop.py", "start/launch.py", "host/processes.py"} <= torch & keras
    assert f"{LIBRARY}/files.py" in code.find_training_code("pytorch_ddp", "resnet44")


def test_a_run_depends_on_its_frameworks_own_loader_only_where_it_uses_it():
    shared, native = (
        name_files(code.find_training_code("tensorflow_mirrored", "small_cnn", loader))
        for loader in ("shared", "native")
    )
    assert native - shared == {"frameworks/keras/tf_data.py"}
    shared, native = (
        name_files(code.find_training_code("pytorch_ddp", "small_cnn", loader)) for loader in ("shared", "native")
    )
    assert native - shared == {
        *("frameworks/torch/loader.py", "input/items.py", "input/workers.py"),
    }


def test_a_run_does_not_depend_on_planning_analysis_or_another_model():
    files = code.find_training_code("pytorch_ddp", "small_cnn")
    rooms = tuple(f"{LIBRARY}/{name}" for name in ("train/", "surroundings/", "files.py"))
    assert not [file for file in files if not file.startswith(rooms)]
    assert not [file for file in files if "resnet44" in file]


@pytest.mark.parametrize("script", REPORTING)
def test_what_is_reported_does_not_depend_on_planning(script):
    """The import contracts do not see scripts. A change of how runs are planned would make every table again."""
    assert not [file for file in code.find_script_code(script) if file.startswith(f"{LIBRARY}/plan/")]


def test_a_figure_does_not_depend_on_another():
    files = code.find_script_code("draw_figures", "report.figures.speedup")
    assert f"{LIBRARY}/report/tables/time_to_accuracy.py" in files
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
def test_what_people_read_changes_no_hash(after, tmp_path):
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
def test_what_python_executes_changes_the_hash(after, tmp_path):
    assert hash_text(tmp_path, BEFORE) != hash_text(tmp_path, after)


def hash_text(folder, text) -> bytes:
    path = folder / "code.py"
    path.write_text(text)
    syntax.read_code.cache_clear()
    return syntax.read_code(path).digest


EVERYWHERE = """
import howmanygpus.train.spec
try:
    from howmanygpus.train.input import prepared
except ImportError:
    from howmanygpus.train.loop import loop
else:
    from howmanygpus.train.input import draws
finally:
    from howmanygpus.train.input import batches

class Something:
    def method(self):
        with open("file") as file:
            for line in file:
                from howmanygpus.train import records
            else:
                from howmanygpus.train.host import processes

match 1:
    case 1:
        from howmanygpus.train.host.slurm import explain
"""


def test_imports_are_found_wherever_they_stand(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(EVERYWHERE)
    names = ("spec", "input/prepared", "loop/loop", "input/draws", "input/batches", "records")
    names += ("host/processes", "host/slurm")
    found = name_files(code.imported_files(path))
    assert {f"{name}.py" for name in names} == {file for file in found if not file.endswith("__init__.py")}
