"""A model in a file of the user is planned for its family, named and hashed."""

import re

import numpy as np
import pytest
import yaml
from safetensors.numpy import save_file

from howmanygpus.config.errors import ConfigError
from howmanygpus.invocation.plans import hash_plan
from howmanygpus.invocation.rules.training import TrainingRules
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.site.machine import Device, Machine
from howmanygpus.study.invalidation.syntax import read_code
from howmanygpus.study.plan import Plan
from project import ROOT, study

CPU = Machine("machine.yaml", {"cpu": Device(8, 1)})
TORCH = "import torch\ndef build(image_shape, num_classes, width=8, *, depth=2):\n    return None\n"
KERAS = "import keras\ndef build(image_shape, num_classes, **options):\n    return None\n"
FLAX = "from flax import nnx\ndef build(image_shape, num_classes, *, rngs):\n    return None\n"
ALL = ["pytorch_ddp", "horovod_pytorch", "keras_mirrored", "jax_sharding"]


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    read_code.cache_clear()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "models").mkdir()
    for name in ("envs", "workflow"):
        (tmp_path / name).symlink_to(ROOT / name)


def make_plan(folder, text=TORCH, model="net.py", **changes) -> Plan:
    if text is not None:
        (folder / model).write_text(text)
    read_code.cache_clear()
    given = study(model=model, **{"frameworks": ALL, "devices": ["cpu"], "parity": "report"} | changes)
    return Plan({"studies": {"s": given}}, CPU)


@pytest.mark.parametrize(
    ("text", "family"),
    [(TORCH, "pytorch"), (KERAS, "keras"), (FLAX, "jax"), ("import tensorflow as tf\n" + KERAS, "k")],
)
def test_frameworks_of_other_families_are_unsupported_with_a_reason(tmp_path, text, family):
    runs = make_plan(tmp_path, text).studies["s"].runs
    trained = {run.framework for run in runs if not run.unsupported}
    assert trained == {name for name in ALL if family in name}
    reasons = {run.unsupported for run in runs if run.framework not in trained}
    assert all(reason.startswith("net.py is a model of ") for reason in reasons) and reasons


def test_a_key_says_the_family_if_the_imports_do_not(tmp_path):
    either = "try:\n    import keras\nexcept ImportError:\n    keras = None\n"
    plan = make_plan(tmp_path, f"{either}{TORCH}", model_family="torch")
    assert plan.studies["s"].own_model.family == "torch"


@pytest.mark.parametrize(("text", "name"), [(TORCH, "pytorch-cpu"), (KERAS, "tensorflow-cpu"), (FLAX, "jax-cpu")])
def test_weights_are_drawn_in_the_environment_that_the_documentation_names(tmp_path, text, name):
    """And not in one with Horovod, which would be built for a study that does without."""
    (model,) = make_plan(tmp_path, text).own_models.values()
    assert model.environment == name and f"`{name}`" in (ROOT / "docs" / "own_model.md").read_text()


def test_flax_computes_in_bf16_if_build_takes_its_type(tmp_path):
    def reasons(text):
        runs = make_plan(tmp_path, text, frameworks=["jax_sharding"], precision=["fp32", "bf16"]).studies["s"].runs
        return {run.precision: run.unsupported for run in runs}

    assert "has no parameter dtype" in reasons(FLAX)["bf16"] and not reasons(FLAX)["fp32"]
    assert not reasons(FLAX.replace("rngs", "rngs, dtype=None"))["bf16"]


def test_a_file_has_its_stem_as_name_and_its_options_in_the_names_of_files(tmp_path):
    plan = make_plan(tmp_path, model="models/net.py", model_options={"width": 4}, frameworks=["pytorch_ddp"])
    (own,) = plan.own_models
    assert re.fullmatch("own_net-[0-9a-f]{8}", own) and plan.networks[own] == {"width": 4}
    (path, *_) = plan.runs
    spec = plan.studies["s"].spec(plan.runs[path])
    assert (spec["model"], spec["model_file"], spec["model_options"]) == ("net", "models/net.py", {"width": 4})
    assert spec["weights_file"].startswith(f"results/weights/{own}_8x8x1_classes10_seed1")
    assert all(verdict.startswith(f"results/parity/{own}_8x8x1_classes10_local_") for verdict in plan.verdicts.values())


def test_a_list_of_models_names_its_studies_by_their_stems(tmp_path):
    (tmp_path / "net.py").write_text(TORCH)
    given = study(model=["net.py", "small_cnn"], frameworks=["pytorch_ddp"], devices=["cpu"])
    plan = Plan({"studies": {"s": given | {"model_options": {"net": {"width": 4}}}}}, CPU)
    assert set(plan.studies) == {"s_net", "s_small_cnn"}
    assert plan.studies["s_net"].config["model_options"] == {"width": 4}


def test_two_files_with_one_name_are_refused(tmp_path):
    for folder in ("models", "folder"):
        (tmp_path / folder / "net.py").write_text(TORCH)
    studies = {
        name: study(model=f"{name}/net.py", frameworks=["pytorch_ddp"], devices=["cpu"])
        for name in ("models", "folder")
    }
    with pytest.raises(
        ConfigError, match=r"studies.folder.model: .* has the same name as models/net.py, so that files"
    ):
        Plan({"studies": studies}, CPU)
    studies["folder"]["model"] = "folder/../models/net.py"
    assert Plan({"studies": studies}, CPU).own_models, "it is the same file"


def read_parameters(plan: Plan) -> tuple[str, ...]:
    """Return the parameters of a run that Snakemake compares."""
    rules, (path, *_) = TrainingRules(plan), plan.runs

    class Wildcards:
        run = path

    return rules.code(Wildcards), rules.settings(Wildcards), plan.verdicts[path].rpartition("/")[2]


def test_code_reruns_runs_and_comments_and_places_do_not(tmp_path):
    def read(text=TORCH, model="net.py", beside="WIDTH = 8\n", **changes):
        for folder in (tmp_path, tmp_path / "models"):
            (folder / "blocks.py").write_text(beside)
        given = {"frameworks": ["pytorch_ddp"], **changes}
        return read_parameters(make_plan(tmp_path, f"import blocks\n{text}", model, **given))

    before = read()
    assert read(TORCH + "# a comment\n") == before
    assert read(model="models/net.py") == before, "another place"
    assert read(beside="WIDTH = 8  # a comment\n") == before
    for changed in (read(TORCH.replace("8", "9")), read(beside="WIDTH = 9\n")):
        assert changed[0] != before[0] and changed[1] == before[1] and changed[2] != before[2]
    options = read(model_options={"width": 9})
    assert options[0] == before[0] and options[1] != before[1]


def read_example(name: str) -> str:
    text = (ROOT / "docs" / "own_model.md").read_text()
    return re.search(rf"<!-- example: {name} -->\n```\w+\n(.*?)```", text, re.DOTALL)[1]


def test_the_example_of_the_documentation_can_be_planned(tmp_path):
    (tmp_path / "models" / "wide_net.py").write_text(read_example("file"))
    config = yaml.safe_load(read_example("study"))
    config["studies"]["mine"]["devices"] = ["cpu"]
    plan = Plan(config, CPU)
    assert len(plan.runs) == 4 and not any(run.unsupported for run in plan.runs.values())


def test_the_examples_can_be_planned_in_all_strategies_of_their_frameworks(monkeypatch):
    monkeypatch.chdir(ROOT)
    config = yaml.safe_load((ROOT / "examples/model/config.yaml").read_text())
    text = (ROOT / "examples/model/config.yaml").read_text()
    for each in config["studies"].values():
        also = re.search(rf"{re.escape(each['frameworks'][0])}\]  # and (.*)", text)
        each["frameworks"] += also[1].split(", ") if also else []
        each["devices"] = ["cpu"]
    plan = Plan(config, CPU)
    families = {name: entry.family for name, entry in FRAMEWORKS.items()}
    for each in plan.studies.values():
        of_family = {name for name, family in families.items() if family == each.own_model.family}
        assert {run.framework for run in each.runs} == of_family
        assert not any(run.unsupported for run in each.runs if run.num_gpus == 1)


def describe_recorded(plan: Plan) -> list[str]:
    """Return what Snakemake records of a study, of its groups in the gate and of their cells."""
    cells = [plan.parity_cells[verdict].request() for verdict in sorted(plan.checked_verdicts)]
    return [
        hash_plan(plan, "s"),
        *(repr(group.request()) for group in plan.parity_groups.values()),
        *map(repr, cells),
    ]


def test_another_place_of_the_model_and_of_its_weights_reruns_no_gate_and_no_table(tmp_path):
    recorded, frameworks = [], ["pytorch_ddp", "mxnet_gluon"]  # MXNet is unsupported, with a reason that names the file
    for place in ("one", "other"):
        (tmp_path / place).mkdir()
        save_file({"weight": np.ones(1, np.float32)}, tmp_path / place / "start.safetensors")
        plan = make_plan(
            tmp_path,
            model=f"{place}/net.py",
            init=f"{place}/start.safetensors",
            frameworks=frameworks,
        )
        recorded.append(describe_recorded(plan))
        assert all(f"{place}/net.py" in str(group.request()) for group in plan.parity_groups.values())
    assert recorded[0] == recorded[1]
    assert describe_recorded(make_plan(tmp_path, model="other/net.py", frameworks=frameworks)) != recorded[1]


def test_the_first_of_all_jobs_checks_a_model():
    text = "".join(path.read_text() for path in (ROOT / "workflow" / "rules").glob("*.smk"))
    rules = dict(
        re.findall(r"^(?:rule|use rule \w+ as) (\w+)(.*?)(?=^(?:rule|use rule)|\Z)", text, re.DOTALL | re.MULTILINE)
    )
    fixed = {name: re.search(r"^    priority: (\d+)$", body, re.MULTILINE) for name, body in rules.items()}
    priorities = {name: int(found[1]) for name, found in fixed.items() if found}
    assert len(priorities) > 4 and max(priorities, key=priorities.get) == "initialize_own_weights"
