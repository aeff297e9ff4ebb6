"""Real X-rays, birds and CIFAR-10 are fetched from a server, prepared in every form, and trained on."""

import csv
import io
import tarfile
from collections import Counter
from contextlib import ExitStack
from dataclasses import asdict

import pytest
import yaml

from helpers.cifar import write_real
from helpers.http_server import Server
from howmanygpus.prepare.sources import cifar10
from pictures import SHARED_DATA
from project import TABLES, Project, study

INPUTS = {"pytorch_ddp": ["arrays"], "mxnet_gluon": ["png", "jpeg"]}
"""The inputs of each framework."""
pytestmark = pytest.mark.skipif(not SHARED_DATA.is_dir(), reason=f"no real images in {SHARED_DATA}")


def pack(paths: dict) -> bytes:
    """Pack files as .tar.gz. paths: the files by their names in the archive."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz", compresslevel=1) as tar:
        for name, path in paths.items():
            tar.add(path, name)
    return content.getvalue()


def serve_cifar10(project: Project) -> Server:
    """Serve batches with fewer images than the published ones at an address of this host."""
    folder = project.folder / "cifar-10-batches-bin"
    write_real(folder)
    server = Server(pack({f"{folder.name}/{path.name}": path for path in folder.iterdir()}))
    module, known = project.folder / "workflow/lib/howmanygpus/prepare/sources/cifar10.py", server.download()
    text = module.read_text()
    for old, new in (
        (cifar10.ARCHIVE.url, known.url),
        (cifar10.ARCHIVE.checksum, known.checksum),
        ("170_052_171", str(known.num_bytes)),
        ("50_000, 10_000", "820, 164"),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    module.write_text(text)
    return server


def as_option(server: Server) -> list[dict]:
    """Return the option `downloads` for the archive of a server."""
    known = asdict(server.download())
    kind, _, checksum = known.pop("checksum").partition(":")
    return [{**known, kind: checksum}]


def serve_xrays(folder) -> Server:
    """Serve the images in an archive, as the NIH publishes them, and write their rows of its table to `folder`."""
    folder.mkdir()
    images = {f"images/{path.name}": path for path in (SHARED_DATA / "xray" / "images").iterdir()}
    table = (SHARED_DATA / "xray" / "Data_Entry_2017_sample.csv").read_text()
    (folder / "Data_Entry_2017_v2020.csv").write_text(table)
    return Server(pack(images))


def serve_birds(listing) -> Server:
    """Serve both splits in one archive, and write the list of its files to `listing`."""
    birds = {str(path.relative_to(SHARED_DATA)): path for path in sorted((SHARED_DATA / "birds").rglob("*.jpg"))}
    listing.write_text("\n".join(birds) + "\n")
    return Server(pack(birds))


def test_each_data_set_is_acquired_prepared_and_trained_on(tmp_path):
    project = Project(tmp_path / "project", fakes=())
    servers = [serve_xrays(project.folder / "nih"), serve_birds(project.folder / "birds.txt"), serve_cifar10(project)]
    xrays = {"folder": "nih", "size": [32, 32], "finding": "Infiltration", "downloads": as_option(servers[0])}
    birds = {"size": [32, 32], "train": "birds/train", "test": "birds/test", "listing": "birds.txt"}
    datasets = {
        "xrays": {"source": "chestxray14", "options": xrays},
        "birds": {"source": "image_folder", "options": birds | {"downloads": as_option(servers[1])}},
        "small": {"source": "cifar10"},
    }
    forms = sorted(form for each in INPUTS.values() for form in each)
    left_out = [{"framework": name, "input": form} for name in INPUTS for form in forms if form not in INPUTS[name]]
    shared = {"frameworks": list(INPUTS), "inputs": forms, "exclude": left_out, "num_gpus": [1], "devices": ["cpu"]}
    shared |= {"steps": None, "epochs": 1, "per_device_batch_size": [8], "warmup_steps": 1, "random_flip": True}
    studies = {f"of_{name}": study(dataset=name, **shared) for name in datasets}
    (project.folder / "config" / "config.yaml").write_text(yaml.safe_dump({"studies": studies, "datasets": datasets}))
    with ExitStack() as stack:
        for server in servers:
            stack.enter_context(server)
        project.snakemake(*TABLES)
    done = Counter((record["spec"]["dataset"], record["status"]) for record in project.read_records().values())
    assert done == dict.fromkeys(((name, "completed") for name in datasets), sum(map(len, INPUTS.values())))
    assert [len(server.requests) for server in servers] == [1, 1, 1]
    assert project.planned(*TABLES) == []


def read_table(project: Project, path: str) -> list[dict[str, str]]:
    return list(csv.DictReader(project.read(path).splitlines(), delimiter="\t"))


def test_xrays_are_trained_on_with_all_their_findings(tmp_path):
    """Two families, from arrays and JPEG; the gate checks them on the data set's own task."""
    project = Project(tmp_path / "project", fakes=())
    folder = project.folder / "nih"
    with serve_xrays(folder) as server:
        options = {"folder": "nih", "size": [32, 32], "downloads": as_option(server), "split": "patients"}
        settings = {"dataset": "xrays", "frameworks": list(INPUTS), "inputs": ["arrays", "jpeg"], "num_gpus": [2]}
        settings |= {"devices": ["cpu"], "steps": None, "epochs": 2, "per_device_batch_size": [8], "warmup_steps": 1}
        settings |= {"quality": {"metric": "macro_auc", "thresholds": [0.01, 1.0]}, "parity": "required"}
        settings |= {"optimizer": {"name": "adam", "learning_rate": 0.001}}
        datasets = {"xrays": {"source": "chestxray14", "options": options}}
        config = {"studies": {"findings": study(**settings)}, "datasets": datasets}
        (project.folder / "config" / "config.yaml").write_text(yaml.safe_dump(config))
        project.snakemake(*TABLES)
    project.snakemake("results/tables/answer.txt")
    runs = read_table(project, "results/tables/runs.tsv")
    assert Counter(run["status"] for run in runs) == {"completed": 2 * 2}
    assert all(0 < float(run["quality_last"]) < 1 and run["quality_metric"] == "macro_auc" for run in runs)
    assert {float(run["quality_of_guess"]) for run in runs} == {0.5}
    (left_out,) = {row["left_out"] for row in read_table(project, "results/tables/datasets.tsv")}
    areas = [
        row for row in read_table(project, "results/tables/class_auc.tsv") if row["framework"] == runs[0]["framework"]
    ]
    undefined = {row["class"] for row in areas if not row["auc"]}
    assert "Hernia" in {row["class"] for row in areas} and undefined == set(filter(None, left_out.split("; ")))
    reached = read_table(project, "results/tables/time_to_accuracy.tsv")
    assert {(row["threshold"], row["reached"]) for row in reached} == {("0.01", "True"), ("1", "False")}
    assert "macro ROC AUC 0.01" in project.read("results/tables/answer.txt")
    assert project.planned(*TABLES) == []
