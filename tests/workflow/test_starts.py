"""Published and given weights go through the workflow from the config to the runs, or stop it before its first job."""

import csv
import hashlib
import json
import re
import subprocess
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from safetensors.numpy import load_file, save_file

from helpers.http_server import Server
from project import ROOT, RUNS, Project, study

PHOTOS = {"source": "patterns", "options": {"image_shape": [8, 8, 3], "num_classes": 3, "num_train": 64, "num_test": 8}}
RUN = "s/sleeping/{}/arrays_fp32_cpu_gpus1_batch16_repeat1"
WEIGHTS = "results/weights/resnet18_8x8x3_classes3_seed1"
NAMES = ROOT / "tests" / "prepare" / "published_names.tsv"
STORE = """
import sys, torch
from safetensors.torch import load_file
torch.save(load_file(sys.argv[1]), sys.argv[2])
"""


def write_config(project, **changes) -> None:
    given = study(model="resnet18", dataset="photos", frameworks=["sleeping"], num_gpus=[1], steps=4, **changes)
    config = {"studies": {"s": given | {"per_device_batch_size": [16]}}, "datasets": {"photos": PHOTOS}}
    (project.folder / "config" / "config.yaml").write_text(yaml.safe_dump(config))


def name_place(project, place: str) -> None:
    """Say in the machine file where published weights are."""
    text = re.sub(r"published_weights: .*\n", "", project.read("profiles/local/machine.yaml"))
    (project.folder / "profiles/local/machine.yaml").write_text(f"{text}published_weights: {place}\n")


@pytest.fixture(scope="module")
def published(tmp_path_factory, environment_python) -> tuple:
    """Return a file of random arrays with torchvision's names for ResNet-18, as PyTorch stores it, and the arrays."""
    folder, random = tmp_path_factory.mktemp("published"), np.random.default_rng(0)
    with open(NAMES, newline="") as file:
        rows = [row for row in csv.DictReader(file, delimiter="\t") if row["model"] == "resnet18"]
    shapes = {row["name"]: tuple(map(int, filter(None, row["shape"].split("x")))) for row in rows}
    arrays = {name: random.random(shape, dtype=np.float32) for name, shape in shapes.items() if shape}
    save_file(arrays, folder / "arrays.safetensors")
    command = [environment_python("pytorch-cpu"), "-c", STORE]
    subprocess.run([*command, folder / "arrays.safetensors", folder / "stored.pth"], check=True)
    digest = hashlib.sha256((folder / "stored.pth").read_bytes()).hexdigest()
    return (folder / "stored.pth").rename(folder / f"resnet18-{digest[:8]}.pth"), arrays


@pytest.fixture(scope="module")
def project(tmp_path_factory, environment_record, published) -> Project:
    """Return a project whose file of published weights is the one above, but is not there yet."""
    project = Project(tmp_path_factory.mktemp("starts") / "project", fakes=["sleeping"])
    project.take_environment(environment_record("pytorch-cpu"))
    network = "workflow/lib/howmanygpus/measure/networks/resnet18.py"
    project.edit(network, f'\nPUBLISHED = Published("{published[0].name}", "imagenet", to_published_name)\n')
    (project.folder / "site").mkdir()
    return project


def read_run(project, variant="base") -> dict:
    return json.loads(project.read(f"results/runs/{RUN.format(variant)}/run.json"))


@pytest.fixture(scope="module")
def refused(project, published) -> dict[str, str]:
    """What calls print that cannot have the file, by the problem; and what a dry run plans then."""
    name = published[0].name
    write_config(project, init="imagenet")
    printed = {}
    with Server(b"") as server:
        server.behaviour = lambda handler, start: server.send(handler, status=404)
        mirror = server.download().url.rpartition("/")[0]
        for place, problem in (
            ("site", f"site/{name}: the file is not there"),
            (mirror, f"{mirror}/{name}: the server has no such file (404 Not Found)"),
        ):
            name_place(project, place)
            printed[problem] = project.snakemake(*RUNS, expect=1)
    assert not (project.folder / "results" / "logs").exists(), "no job has begun"
    assert not (project.folder / "results" / "prepared").exists()
    name_place(project, "site")
    assert "fetch_weights" in project.planned(*RUNS), "a dry run needs no file"
    return printed


@pytest.fixture(scope="module")
def pretrained(project, published, refused) -> SimpleNamespace:
    """Weights, their record and the runs of a study with and without published weights."""
    file, arrays = published
    path = file.rename(project.folder / "site" / file.name)
    write_config(project, variants={"base": {}, "pretrained": {"init": "imagenet"}})
    project.snakemake(*RUNS)
    drawn, taken = (load_file(project.folder / f"{WEIGHTS}{start}.safetensors") for start in ("", "_imagenet"))
    record = json.loads(project.read(f"{WEIGHTS}_imagenet.json"))
    runs = [read_run(project, variant) for variant in ("base", "pretrained")]
    assert project.planned(*RUNS) == []
    name_place(project, "/software/weights")
    elsewhere = project.planned(*RUNS)
    return SimpleNamespace(
        **{"file": path, "arrays": arrays, "drawn": drawn, "taken": taken, "record": record, "runs": runs},
        elsewhere=elsewhere,
    )


def test_nothing_starts_if_the_published_file_cannot_be_had(refused, published):
    name, digest = published[0].name, published[0].stem[-8:]
    for problem, printed in refused.items():
        assert problem in printed and f"put it at results/downloads/{digest}/{name} (its SHA-256" in printed


def test_published_weights_reach_the_runs_with_a_new_last_layer(pretrained):
    taken, drawn, arrays = pretrained.taken, pretrained.drawn, pretrained.arrays
    assert np.array_equal(taken["stem_conv.kernel"], arrays["conv1.weight"].transpose(2, 3, 1, 0))
    assert np.array_equal(taken["stage4_block2_bn2.variance"], arrays["layer4.1.bn2.running_var"])
    assert np.array_equal(taken["dense.kernel"], drawn["dense.kernel"]) and taken["dense.kernel"].shape == (512, 3)
    record, name = pretrained.record, pretrained.file.name
    assert record["drawn"] == ["dense.kernel", "dense.bias"] and record["dropped"] == []
    assert record["source"]["sha256"].startswith(pretrained.file.stem[-8:])
    assert record["source"]["path"] == f"site/{name}"
    assert [(run["spec"]["init"], run["spec"]["normalization"]) for run in pretrained.runs] == [
        ("random", "data"),
        ("imagenet", "imagenet"),
    ]
    assert pretrained.runs[1]["weights_sha256"] == record["sha256"] != pretrained.runs[0]["weights_sha256"]


def test_another_place_of_the_published_file_reruns_nothing(pretrained):
    assert pretrained.elsewhere == []


def test_a_file_of_the_user_reruns_its_runs_if_its_content_changes(project, pretrained):
    given = pretrained.taken
    save_file(given, project.folder / "mine.safetensors")
    write_config(project, init="mine.safetensors")
    project.snakemake(*RUNS)
    spec = read_run(project)["spec"]
    assert spec["init"] == "sha256:" + hashlib.sha256((project.folder / "mine.safetensors").read_bytes()).hexdigest()
    taken = load_file(project.folder / spec["weights_file"])
    assert all(np.array_equal(taken[name], given[name]) for name in given)
    assert json.loads(project.read(spec["weights_file"].replace(".safetensors", ".json")))["drawn"] == []

    (project.folder / "mine.safetensors").rename(project.folder / "moved.safetensors")
    write_config(project, init="moved.safetensors")
    assert project.planned(*RUNS) == []
    save_file({name: array + 1 for name, array in given.items()}, project.folder / "moved.safetensors")
    assert project.planned(*RUNS) == ["adapt_weights", RUN.format("base")]


def test_fractions_in_model_options_have_rules(project):
    options = {"dropout": 0.25, "kernel": 3, "stride": 1, "poolings": [1, 2]}
    write_config(project, parity="report")
    config = yaml.safe_load(project.read("config/config.yaml"))
    config["studies"]["s"] |= {"model": "alexnet", "model_options": options}
    (project.folder / "config" / "config.yaml").write_text(yaml.safe_dump(config))
    assert {"initialize_weights", "compute_reference"} <= set(project.planned(*RUNS))
