"""Entries of the gallery are checked, and those of one study are compared."""

import json
import subprocess
import sys

import pytest
import yaml

from helpers.messages import says
from helpers.scattered_results import make
from howmanygpus.config.errors import ConfigError
from howmanygpus.report.places import find_places, hide_hosts, hide_places
from howmanygpus_tools.gallery.gallery import FILES, pair_entries, read_gallery
from howmanygpus_tools.gallery.page import group_by_study, render_gallery
from project import ROOT

ABOUT = {
    "machine": "two cores of an AMD EPYC",
    "site": "not said",
    "drivers": "none",
    "node": "shared",
    "date": "2026-11-22",
    "licence": "CC0-1.0",
}


def write_entry(folder, name, result, **about):
    entry = folder / name
    entry.mkdir(parents=True)
    (entry / "result.json").write_text(json.dumps(result))
    (entry / "about.yaml").write_text(yaml.safe_dump(ABOUT | about))
    return entry


def refuse(folder, names=()):
    with pytest.raises(ConfigError) as error:
        read_gallery(folder, names)
    return str(error.value)


def test_entries_of_a_study_are_compared_with_its_oldest(tmp_path):
    write_entry(tmp_path, "one", make(1))
    write_entry(tmp_path, "two", make(2, factor=2.0))
    entries = read_gallery(tmp_path)
    (pair,) = pair_entries(entries)
    assert (pair.first.name, pair.second.name, pair.refusal) == ("one", "two", "")
    assert pair.comparison.frameworks[0].ratio == pytest.approx(2, rel=0.05)
    assert [one["num_gpus"] for one in entries[0].list_counts()] == [1, 2]
    assert entries[0].list_counts()[0]["per_device_batch_size"] == 16, "the faster batch"


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("manifest_sha256", ["1" * 64], "images differ"),
        ("settings", {"epochs": 3}, "epochs: default -> 3"),
        ("num_gpus", 64, "no configuration in common"),
    ],
)
def test_entries_that_did_other_work_are_not_compared(tmp_path, name, value, why):
    write_entry(tmp_path, "one", make(1))
    other = make(2)
    other["configurations"] = [one | {name: value} for one in other["configurations"]]
    write_entry(tmp_path, "two", other)
    (pair,) = pair_entries(read_gallery(tmp_path))
    assert pair.comparison is None and why in pair.refusal


def test_entries_that_count_different_things_are_not_compared_and_the_page_has_their_unit(tmp_path):
    for name, number, unit in (("one", 1, "tokens"), ("two", 2, "samples")):
        result = make(number)
        result["decision"]["unit"] = unit
        write_entry(tmp_path, name, result)
    entries = read_gallery(tmp_path)
    (pair,) = pair_entries(entries)
    assert pair.comparison is None and "tokens" in pair.refusal and "samples" in pair.refusal
    (title,) = group_by_study(entries[:1])
    page = render_gallery(entries[:1], [], {title: "figure.svg"})
    assert "![Tokens per second" in page and "| tokens/s |" in page and "mages" not in page


def test_machines_with_other_cores_per_device_are_compared(tmp_path):
    write_entry(tmp_path, "one", make(1))
    other = make(2)
    other["configurations"] = [one | {"settings": {"cores_per_device": 8}} for one in other["configurations"]]
    write_entry(tmp_path, "two", other)
    (pair,) = pair_entries(read_gallery(tmp_path))
    assert pair.comparison and "cores_per_device: default -> 8" in pair.changes


def test_everything_that_is_wrong_is_named_at_once(tmp_path):
    broken = make(1) | {"version": 1}
    write_entry(tmp_path, "Old", broken, node="mine", licence=None)
    message = refuse(tmp_path)
    assert says(message, "Old", "is no name of an entry", "lower-case")
    assert says(message, "about.yaml: node", "mine", "exclusive") and "about.yaml: licence" in message
    assert says(message, "result.json: version: 1 is not 2", "make it again")


def test_a_configuration_on_more_devices_than_the_parity_gate_has_checked_proves_enough(tmp_path):
    result = make(1)
    result["configurations"][0]["parity"] = ["passed on 3 devices"]
    write_entry(tmp_path, "one", result)
    assert read_gallery(tmp_path)


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"parity": ["not_checked"]}, ("a on 1: parity", "not_checked", "parity: required")),
        ({"parity": ["passed", "not_checked"]}, ("a on 1: parity", "not_checked", "parity: required")),
        ({"framework_version": []}, ("a on 1", "framework_version", "is not known", "measure in")),
        ({"images_per_s": ["fast"]}, ("images_per_s[0]", "fast", "number")),
        ({"remarks": "mine"}, ("unknown key", "remarks")),
    ],
)
def test_a_configuration_that_proves_too_little_is_refused(tmp_path, changes, parts):
    result = make(1)
    result["configurations"][0] |= changes
    write_entry(tmp_path, "one", result)
    assert says(refuse(tmp_path), "one/result.json", *parts)


def test_files_that_are_missing_or_do_not_belong_are_named(tmp_path):
    entry = write_entry(tmp_path, "one", make(1))
    (entry / "about.yaml").unlink()
    (entry / "train.log").touch()
    message = refuse(tmp_path)
    assert says(message, "about.yaml", "is missing", "add it") and says(message, "train.log", "remove it")


def test_a_date_that_is_not_that_of_the_runs_is_refused_and_quotes_are_not_needed(tmp_path):
    entry = write_entry(tmp_path, "one", make(1))
    (entry / "about.yaml").write_text((entry / "about.yaml").read_text().replace("'2026-11-22'", "2026-11-22"))
    assert read_gallery(tmp_path)[0].about["date"] == "2026-11-22"
    (entry / "about.yaml").write_text(yaml.safe_dump(ABOUT | {"date": "2026-11-01"}))
    assert says(refuse(tmp_path), "about.yaml: date", "2026-11-01", "write 2026-11-22")


def test_the_same_result_twice_is_refused(tmp_path):
    for name in ("one", "two"):
        write_entry(tmp_path, name, make(1))
    assert says(refuse(tmp_path), "two", '"one"', "same result")


@pytest.mark.parametrize(
    "text",
    [
        "/home/ada/results",
        "see ~/runs and",
        "on gpu7.cluster.example.org",
        "ask ada@example.org",
        "at 10.1.2.3:80",
        "http://proxy:3128",
        "GPU-0a1b2c3d-1111-2222-3333-444455556666",
        "C:\\Users\\ada",
        "the host vm17 was busy",
    ],
)
def test_what_names_a_place_a_host_or_a_person_is_refused_and_can_be_hidden(tmp_path, text):
    result = make(1)
    result["decision"]["decisions"][0]["doubts"].append({"kind": "x", "text": text, "run_next": []})
    write_entry(tmp_path, "one", result)
    assert says(refuse(tmp_path, ("vm17",)), "result.json: decision.decisions[0].doubts", "take it out")
    assert not list(find_places(hide_places(hide_hosts(text, ["vm17"])), ("vm17",)))


@pytest.mark.parametrize(
    "text",
    [
        "1,234 images/s of 2 x a100, and 3 GiB/s",
        "torch 2.9.1+cpu torchvision 0.24.1+cpu",
        "Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz",
        ".venv/bin/python workflow/scripts/retry_runs.py --disturbed",
        "parity: required",
        "2026-11-27",
    ],
)
def test_ordinary_texts_are_no_places(text):
    assert not list(find_places(text)) and hide_places(text) == text


def test_four_numbers_are_a_version_where_one_is_expected():
    assert not list(find_places({"framework_version": ["cudnn 9.1.0.70"]}))
    assert list(find_places({"text": "cudnn 9.1.0.70"}))


def list_gallery(folder):
    command = [sys.executable, "-m", "howmanygpus_tools.gallery", "--folder", str(folder)]
    return subprocess.run(command, cwd=ROOT, env={"PYTHONPATH": "workflow/lib"}, capture_output=True, text=True)


def test_the_command_writes_a_page_with_all_entries_and_refuses_a_wrong_one(tmp_path):
    write_entry(tmp_path, "one", make(1))
    write_entry(tmp_path, "two", make(2, slower="b"), remark="Slow on purpose.")
    ended = list_gallery(tmp_path)
    assert ended.returncode == 0, ended.stderr
    page = (tmp_path / "entries.md").read_text()
    assert says(page, "[one](one/result.json)", "Slow on purpose.", "### two beside one", "| b | 0.9", "difference")
    assert (tmp_path / "s-small_cnn-d.svg").exists()
    write_entry(tmp_path, "three", make(3) | {"version": 1})
    ended = list_gallery(tmp_path)
    assert ended.returncode == 1 and "three/result.json: version: 1" in ended.stderr


def test_every_entry_of_the_gallery_is_sound_and_the_page_lists_them(tmp_path):
    """`make gallery` writes the page anew."""
    for path in (ROOT / "gallery").glob("*/*"):
        (tmp_path / path.parent.name).mkdir(exist_ok=True)
        (tmp_path / path.parent.name / path.name).write_bytes(path.read_bytes())
    ended = list_gallery(tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "entries.md").read_text() == (ROOT / "gallery" / "entries.md").read_text()
    assert set(FILES) == {path.name for path in (ROOT / "gallery").glob("*/*")}
