"""Jobs prepare image files, and a change reruns only the jobs it affects."""

import io
import json
import shutil
import sys
import tarfile

import pytest
import yaml

from helpers.http_server import Server
from howmanygpus.prepare.sources import cifar10
from howmanygpus.site.environments.pins import hash_requirements, list_pin_files
from pictures import encode, smooth, write_tree
from project import LISTED, Project, study

COUNTS = {"train/cat": 6, "train/dog": 6, "test/cat": 3, "test/dog": 3}


def write_config(project, **options):
    options = {"folder": "pets", "size": [8, 8], "channels": 1, "shard_images": 6, **options}
    config = {"studies": {"first": study()}, "datasets": {"pets": {"source": "image_folder", "options": options}}}
    (project.folder / "config" / "config.yaml").write_text(yaml.safe_dump(config))


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Project:
    project = Project(tmp_path_factory.mktemp("prepared") / "project")
    write_tree(project.folder / "pets", COUNTS)
    write_config(project)
    project.snakemake("prepared")
    return project


@pytest.fixture
def copy(finished, tmp_path) -> Project:
    return finished.copy_to(tmp_path / "project")


def planned(project) -> list[str]:
    return [job for job in project.planned("prepared") if job != "prepared"]


def test_a_data_set_that_no_study_uses_is_prepared_by_its_own_target(finished):
    rows = finished.read("results/prepared/pets/arrays/manifest.tsv").splitlines()
    assert len(rows) == 1 + sum(COUNTS.values())
    assert finished.read("results/prepared/pets/arrays/exclusions.tsv").splitlines() == ["path\tsplit\tlabel\treason"]
    assert not (finished.folder / "results" / "runs").exists()
    log = finished.read("results/logs/prepare_shard/pets/shard0of4.log")
    assert "shard 1 of 4: " in log and " images/s, " in log
    assert planned(finished) == []


def test_a_changed_file_redoes_its_shard_and_the_merge(copy):
    (copy.folder / "pets/train/cat/0001.png").write_bytes(encode(smooth(seed=99)))
    assert planned(copy) == ["merge_shards", "prepare_shard"]
    copy.snakemake("prepared")
    assert planned(copy) == []


def test_an_added_file_redoes_its_shard_and_the_merge(copy):
    (copy.folder / "pets/train/cat/0100.png").write_bytes(encode(smooth(seed=98)))
    assert planned(copy) == ["merge_shards", "prepare_shard"]


def test_the_policy_for_bad_files_affects_only_the_merge(copy):
    (copy.folder / "pets/train/cat/0001.png").write_bytes(b"<html>")
    output = copy.snakemake("prepared", expect=1)
    assert "1 files cannot be prepared (1 unknown)" in output and "train/cat/0001.png: unknown: begins with" in output
    write_config(copy, on_bad_file="skip")
    assert planned(copy) == ["merge_shards"]
    copy.snakemake("prepared")
    assert "train/cat/0001.png\ttrain\t0\tunknown: " in copy.read("results/prepared/pets/arrays/exclusions.tsv")


def test_the_library_reruns_nothing_and_the_filter_all(copy):
    write_config(copy, library="pillow")
    assert planned(copy) == []
    write_config(copy, filter="lanczos")
    assert planned(copy) == ["merge_shards", *["prepare_shard"] * 4]


def test_a_wrong_option_is_refused_before_the_first_job(copy):
    write_config(copy, folder="nowhere")
    assert 'datasets.pets.options.folder: "nowhere" is not a folder here; give' in copy.snakemake("prepared", expect=1)


def test_unsplit_images_are_split_and_oddities_are_printed(project):
    write_tree(project.folder / "pets", {"cat": 10, "dog": 10})
    shutil.copy(project.folder / "pets/cat/0000.png", project.folder / "pets/dog/0000.png")
    write_config(project)
    found = "which has 2 folders (cat with 10 files, dog with 10 files); split these classes by `split: {test: 0.2}`"
    assert found in project.snakemake("prepared", expect=1)
    write_config(project, split={"test": 0.2})
    odd = "datasets.pets: images with the same pixels in several classes: 1 (cat/0000.png = dog/0000.png)"
    counts = "datasets.pets: 16 training and 4 test images of 8 x 8 x 1 in 2 classes"
    first = project.snakemake("prepared")
    assert first.count(odd) == 1, "printed by the job"
    again = project.snakemake("prepared", "--dry-run")
    assert again.count(odd) == 1 and counts in again and planned(project) == []
    write_config(project, split={"test": 0.2, "seed": 2})
    assert planned(project) == ["merge_shards"], "a split changes no pixel"


def write_xrays(folder):
    """Write ten patients with one image each in an archive, and the NIH's table."""
    rows = ["Image Index,Finding Labels,Patient ID"]
    folder.mkdir()
    with tarfile.open(folder / "images_001.tar.gz", "w:gz") as tar:
        for patient in range(1, 11):
            rows.append(f"{patient:08d}_000.png,{'Edema' if patient % 2 else 'No Finding'},{patient}")
            content = encode(smooth(seed=patient))
            member = tarfile.TarInfo(f"images/{patient:08d}_000.png")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    (folder / "Data_Entry_2017_v2020.csv").write_text("\n".join(rows))


def test_archives_are_extracted_once_and_prepared(project):
    write_xrays(project.folder / "nih")
    options = {"folder": "nih", "size": [8, 8], "finding": "Edema"}
    datasets = {"xrays": {"source": "chestxray14", "options": options}}
    config = {"studies": {"first": study(dataset="xrays", per_device_batch_size=[2])}, "datasets": datasets}
    (project.folder / "config" / "config.yaml").write_text(yaml.safe_dump(config))
    project.snakemake("prepared")
    assert len(list((project.folder / "results/raw/xrays/images").iterdir())) == 10
    described = json.loads(project.read("results/prepared/xrays/arrays/dataset.json"))
    assert (described["num_train"], described["num_test"], described["num_classes"]) == (7, 2, 2)
    assert planned(project) == []


def test_images_are_fetched_from_where_the_config_says(project):
    write_tree(project.folder / "made", COUNTS)
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        tar.add(project.folder / "made", "pets")
        names = [f"{member.name}{'/' * member.isdir()}" for member in tar.getmembers()]
        (project.folder / "pets.txt").write_text("\n".join(names))
    shutil.rmtree(project.folder / "made")
    with Server(content.getvalue()) as server:
        known = server.download()
        archive = {"url": known.url, "sha256": known.checksum.partition(":")[2], "num_bytes": known.num_bytes}
        options = {"folder": None, "downloads": [archive], "train": "pets/train", "test": "pets/test"}
        write_config(project, **options, listing="pets.txt")
        project.snakemake("prepared")
        assert len(server.requests) == 1
    assert len(project.read("results/prepared/pets/arrays/manifest.tsv").splitlines()) == 1 + sum(COUNTS.values())
    assert planned(project) == []
    archive["url"] = "https://images.example/pets.tar.gz"
    write_config(project, **options, listing="pets.txt")
    assert planned(project) == [], "the same content from elsewhere"
    archive["sha256"] = "0" * 64
    write_config(project, **options, listing="pets.txt")
    assert "acquire" in planned(project)


def test_a_metric_of_one_label_is_refused_for_several(project):
    write_xrays(project.folder / "nih")
    datasets = {"xrays": {"source": "chestxray14", "options": {"folder": "nih", "size": [8, 8]}}}
    config = {"studies": {"first": study(dataset="xrays")}, "datasets": datasets}
    (project.folder / "config" / "config.yaml").write_text(yaml.safe_dump(config))
    output = project.snakemake("prepared", expect=1)
    assert 'studies.first.quality.metric: "accuracy" is for one label an image, and an image of xrays has' in output


def test_a_failed_download_names_the_manual_remedy(project):
    module = project.folder / "workflow/lib/howmanygpus/prepare/sources/cifar10.py"
    text = module.read_text()
    config = {"studies": {"first": study()}, "datasets": {"small": {"source": "cifar10"}}}
    (project.folder / "config" / "config.yaml").write_text(yaml.safe_dump(config))
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        tar.addfile(tarfile.TarInfo("cifar-10-batches-bin/empty"))
    with Server(content.getvalue()) as server:
        known = server.download()
        for old, new in ((cifar10.ARCHIVE.url, known.url), ("170_052_171", str(known.num_bytes))):
            text = text.replace(old, new)
        module.write_text(text)
        output = project.snakemake("results/raw/small.json", expect=1)
        assert (
            "the checksum is sha256:" in output
            and "By hand: fetch the binary version, cifar-10-binary.tar.gz, from" in output
        )
        assert not (project.folder / "results/raw/small").exists()
        module.write_text(text.replace(cifar10.ARCHIVE.checksum, known.checksum))
        project.snakemake("results/raw/small.json")
    assert (project.folder / "results/raw/small/cifar-10-batches-bin/empty").exists()


def test_the_cost_of_preparing_is_measured_alone_and_drawn(copy):
    assert "measurement=100" in copy.snakemake("preparation", "--dry-run", *LISTED)
    copy.snakemake("preparation")
    assert copy.read("results/preparation/pets.tsv").startswith("part\tname\timages_per_s\t")
    assert (copy.folder / "results/preparation/pets.svg").exists()
    assert [job for job in copy.planned("preparation") if job != "preparation"] == []


def test_pillow_simd_prepares_in_its_own_environment(copy):
    """The record names a script that starts this Python instead of an environment with Pillow-SIMD."""
    pins = hash_requirements([copy.folder / path for path in list_pin_files("pillow-simd")])[:8]
    record = copy.folder / "results" / "environments" / f"pillow-simd-{pins}.json"
    record.parent.mkdir(parents=True, exist_ok=True)
    script = copy.folder / "python"
    script.write_text(f'#!/bin/sh\necho started >> {copy.folder}/started\nexec {sys.executable} "$@"\n')
    script.chmod(0o755)
    before = copy.read("results/prepared/pets/arrays/manifest.tsv")
    write_config(copy, library="pillow_simd")
    assert planned(copy) == ["build_environment", "merge_shards", *["prepare_shard"] * 4]
    record.write_text(json.dumps({"name": "pillow-simd", "python": str(script)}))
    copy.snakemake("prepared")
    assert copy.read("started").splitlines() == ["started"] * 4
    assert copy.read("results/prepared/pets/arrays/manifest.tsv") == before


def test_another_number_of_shards_leaves_none_of_the_old(copy):
    write_config(copy, shard_images=100)
    before = copy.read("results/prepared/pets/arrays/dataset.json")
    copy.snakemake("prepared")
    names = {path.name for path in (copy.folder / "results/prepared/pets/shards").iterdir()}
    assert names == {"shard0of1.pixels", "shard0of1.tsv"}
    assert copy.read("results/prepared/pets/arrays/dataset.json") == before
