"""The files that each step depends on."""

import pytest

from benchplan import code
from project import ROOT


@pytest.fixture(autouse=True)
def in_project(monkeypatch):
    monkeypatch.chdir(ROOT)


def test_a_run_depends_on_its_own_backend_and_family_alone():
    torch, keras = (code.training_code(name, "resnet44") for name in ("pytorch_ddp", "keras_mirrored"))
    only_torch, only_keras = set(torch) - set(keras), set(keras) - set(torch)
    library = "workflow/lib/trainbench"
    assert only_torch == {
        f"{library}/backends/pytorch_ddp.py",
        f"{library}/families/torch.py",
        f"{library}/families/torch_batch.py",
        f"{library}/models/resnet44/layers.py",
        f"{library}/models/resnet44/torch.py",
    }
    assert only_keras == {
        f"{library}/backends/keras_mirrored.py",
        f"{library}/families/keras.py",
        f"{library}/families/keras_fit.py",
        f"{library}/families/mirrored.py",
        f"{library}/models/resnet44/keras.py",
    }
    assert {f"{library}/loop.py", f"{library}/launch.py", f"{library}/processes.py"} <= set(torch)


def test_a_run_depends_on_its_frameworks_own_loader_only_where_it_uses_it():
    shared, native = (
        set(code.training_code("tensorflow_mirrored", "small_cnn", loader)) for loader in ("shared", "native")
    )
    assert native - shared == {"workflow/lib/trainbench/loaders/tf_data.py"}
    torch = set(code.training_code("pytorch_ddp", "small_cnn", "native"))
    loaders = {file.rpartition("/")[2] for file in torch if "/loaders/" in file}
    assert loaders == {"__init__.py", "items.py", "pillow.py", "processes.py", "torch.py"}
    assert not [file for file in shared if "/loaders/" in file and not file.endswith("__init__.py")]


def test_a_run_does_not_depend_on_planning_analysis_or_another_model():
    files = code.training_code("pytorch_ddp", "small_cnn")
    assert not [file for file in files if "benchplan" in file or "benchreport" in file or "resnet44" in file]


def test_a_figure_does_not_depend_on_another():
    files = code.script("draw_figure", "benchreport.figures.speedup")
    assert "workflow/lib/benchreport/thresholds.py" in files
    assert not [file for file in files if file.endswith("run_grid.py")]


def test_the_measured_side_imports_nothing_of_the_others():
    for path in (ROOT / "workflow" / "lib" / "trainbench").rglob("*.py"):
        imported = code.imported_files(path.relative_to(ROOT))
        assert not [file for file in imported if file.parts[2] != "trainbench"], path


EVERYWHERE = """
import trainbench.spec
try:
    from trainbench import data
except ImportError:
    from trainbench import loop
else:
    from trainbench import draws
finally:
    from trainbench import batches

class Something:
    def method(self):
        with open("file") as file:
            for line in file:
                from trainbench import records
            else:
                from trainbench import processes

match 1:
    case 1:
        from trainbench.slurm import explain
"""


def test_imports_are_found_wherever_they_stand(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(EVERYWHERE)
    names = ("spec", "data", "loop", "draws", "batches", "records", "processes", "slurm", "__init__")
    assert {str(file) for file in code.imported_files(path)} == {f"workflow/lib/trainbench/{name}.py" for name in names}
