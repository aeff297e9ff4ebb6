"""run.json and attempt.json have a schema, which launcher and tables check."""

import dataclasses
import errno
import json

import pytest

from helpers.records import JOB, MEASURED, make_attempt, make_run
from helpers.specs import make_spec
from helpers.stored_runs import FIXED
from howmanygpus.measure.around.schema import RecordError, check_record, read_definitions, read_record, write_record
from howmanygpus.measure.launch.launch import RunModule, publish, write_end
from howmanygpus.measure.program.spec import ProgramSpec
from howmanygpus.measure.records import AttemptFolder
from howmanygpus.measure.spec import RunSpec
from howmanygpus.report.outcomes import read_outcomes
from howmanygpus.settings import SETTINGS
from howmanygpus.site.jobs import completing
from howmanygpus.site.jobs.completing import list_leftovers
from howmanygpus.study.program.study import program_defaults

DEFINITIONS = read_definitions()
MISSING, SPEC = object(), make_spec().to_dict()
NOTHING = RunModule("", lambda spec: {}, lambda spec, attempt: None)


def find_undescribed(rule: dict, place: str) -> list[str]:
    """Return the places of keys without a type or a description. Settings of a study are described elsewhere."""
    if "$ref" in rule:
        rule = DEFINITIONS[rule["$ref"].removeprefix("#/$defs/")]
    has_both = "description" in rule and {"type", "enum", "const"} & set(rule)
    inner = rule.get("properties", {}) | rule.get("items", {}).get("properties", {})
    return ([] if has_both else [place]) + [
        found
        for key, value in inner.items()
        if not (place.endswith(".spec") and key in SETTINGS and "description" not in value)
        for found in find_undescribed(value, f"{place}.{key}")
    ]


@pytest.mark.parametrize("kind", ["run", "attempt"])
def test_every_key_has_a_type_and_a_description(kind):
    assert find_undescribed(DEFINITIONS[kind], kind) == []


def test_the_schema_has_the_keys_of_a_specification():
    spec = DEFINITIONS["spec"]["properties"]
    assert set(spec) == {*(field.name for field in dataclasses.fields(RunSpec)), "program"}
    assert {field.name for field in dataclasses.fields(ProgramSpec)} < set(spec)
    of_some_runs = {"control", "stop_after"}
    own = set(spec["program"]["properties"]) - of_some_runs
    assert own == set(program_defaults()) - {"name", "unit", "same_work"}, "words rerun nothing"


@pytest.mark.parametrize("status", DEFINITIONS["run"]["properties"]["status"]["enum"])
def test_a_record_of_each_outcome_is_accepted(tmp_path, status):
    write_record(tmp_path / "run.json", make_run(make_spec(), status, job=JOB))
    assert read_record(tmp_path / "run.json")["status"] == status


@pytest.mark.parametrize("status", DEFINITIONS["attempt"]["properties"]["status"]["enum"])
def test_a_record_of_each_end_of_an_attempt_is_accepted(tmp_path, status):
    write_record(tmp_path / "attempt.json", make_attempt(make_spec(), status))
    assert read_record(tmp_path / "attempt.json")["status"] == status


def test_a_record_says_why_a_completed_run_lacks_the_rate_of_copies(tmp_path):
    changes = {"host_to_device_gib_per_s": None, "host_to_device_problem": "CUDA out of memory"}
    write_record(tmp_path / "run.json", make_run(make_spec(), **changes))
    assert read_record(tmp_path / "run.json")["host_to_device_problem"] == "CUDA out of memory"


@pytest.mark.parametrize(
    ("status", "changes", "message"),
    [
        ("completed", {"images": 3}, "Additional properties are not allowed ('images' was unexpected)"),
        ("completed", {"train_s": MISSING}, "'train_s' is a required property"),
        ("completed", {"train_s": "5"}, "train_s: '5' is not of type 'number'"),
        ("completed", {"train_s": -1}, "train_s: -1 is less than the minimum of 0"),
        ("completed", {"code": MISSING}, "'code' is a required property"),
        ("completed", {"finished_at": MISSING}, "'finished_at' is a required property"),
        ("completed", {"versions": {"torch": 2}}, "versions: torch: 2 is not of type 'string'"),
        ("crashed", {}, "status: 'crashed' is not one of"),
        ("out_of_memory", {"train_s": 5}, "train_s: a record with this status does not have this key"),
        ("failed_parity", {"init_s": 1} | MEASURED, "a record with this status does not have this key"),
        ("unsupported", {"init_s": 1}, "is a dependency of 'init_s'"),
        ("completed", {"spec": {"study": "s"}}, "spec: 'data_dir' is a required property"),
        ("completed", {"spec": SPEC | {"colour": 1}}, "spec: Additional properties are not allowed ('colour' was"),
        ("completed", {"spec": SPEC | {"steps": "5"}}, "spec: steps: '5' is not of type 'integer', 'null'"),
        ("completed", {"spec": SPEC | {"crop": [8, 8.5]}}, "spec: crop: 1: 8.5 is not of type 'integer'"),
        ("completed", {"spec": SPEC | {"optimizer": {"beta": 1}}}, "optimizer: Additional properties are not allowed"),
        ("completed", {"host": {"hostname": "h"}}, "host: 'cpu_model' is a required property"),
        ("completed", {"manifest_sha256": "0123"}, "manifest_sha256: '0123' does not match"),
    ],
)
def test_a_wrong_record_is_refused_with_its_file_and_key(tmp_path, status, changes, message):
    record = {key: value for key, value in make_run(make_spec(), status, **changes).items() if value is not MISSING}
    with pytest.raises(RecordError) as error:
        write_record(tmp_path / "run.json", record)
    assert str(error.value).startswith(f"{tmp_path}/run.json: ") and message in str(error.value)
    assert not (tmp_path / "run.json").exists()


@pytest.mark.parametrize(
    ("status", "changes", "message"),
    [
        ("running", {"finished_at": "now"}, "finished_at: a record with this status does not have this key"),
        ("crashed", {"finished_at": MISSING}, "'finished_at' is a required property"),
        ("completed", {}, "status: 'completed' is not one of"),
        ("crashed", {"train_s": 5}, "('train_s' was unexpected)"),
    ],
)
def test_a_wrong_record_of_an_attempt_is_refused(tmp_path, status, changes, message):
    record = make_attempt(make_spec(), status, **changes)
    with pytest.raises(RecordError) as error:
        check_record(tmp_path / "attempt.json", {key: value for key, value in record.items() if value is not MISSING})
    assert message in str(error.value)


def test_an_attempt_that_was_settled_needs_no_end(tmp_path):
    record = make_attempt(make_spec(), "killed", settled=True)
    del record["finished_at"]
    check_record(tmp_path / "attempt.json", record)


@pytest.mark.parametrize("changes", [{"versions": {"torch": 2}}, {"train_s": float("nan")}])
def test_a_wrong_record_is_not_published(tmp_path, changes):
    attempt, run_dir = AttemptFolder(tmp_path / "attempts" / "1"), tmp_path / "run"
    attempt.path.mkdir(parents=True)
    attempt.events.write_text("measured\n")
    with pytest.raises(ValueError):
        publish(make_spec(), attempt, run_dir, make_run(make_spec(), **changes), NOTHING)
    assert not run_dir.exists()
    assert attempt.events.read_text() == "measured\n", "what was measured is kept"


def test_an_invalid_outcome_is_reduced_to_its_certain_parts(tmp_path):
    attempt = AttemptFolder(tmp_path)
    write_end(attempt, make_attempt(make_spec(), "time_limit", host={"hostname": "h"}))
    record = read_record(attempt.record)
    assert record["status"] == "crashed" and "host" not in record
    assert "host: 'cpu_model' is a required property" in record["reason"]
    assert record["reason"].endswith("the attempt had ended with time_limit: why time_limit")


GIVE_WAY = ["processes-1/telemetry.node0.csv", "processes-1/spec.json", "events.jsonl"]
"""Files of an attempt, those that are worth least first."""


@pytest.mark.parametrize("needed", range(len(GIVE_WAY) + 1))
def test_a_full_disk_keeps_the_reason_and_drops_other_files(tmp_path, monkeypatch, needed):
    """There is room when so many files are gone; no more than these are lost."""
    attempt, write = AttemptFolder(tmp_path), completing.write_json_atomic
    stays = ["owner.json", "replaced.json", "spec.json", "placement.json"]
    (tmp_path / "processes-1").mkdir()
    for name in [*stays, *reversed(GIVE_WAY)]:
        (tmp_path / name).write_text("something\n")

    def list_files():
        return {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}

    def write_if_room(path, record):
        if len(list_files()) > len(stays) + len(GIVE_WAY) - needed:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, record)

    monkeypatch.setattr(completing, "write_json_atomic", write_if_room)
    completing.write_if_room(attempt.record, make_attempt(make_spec(), "disk_full"), list_leftovers(attempt))
    assert read_record(attempt.record)["status"] == "disk_full"
    assert list_files() == {*stays, *GIVE_WAY[needed:], "attempt.json"}


def plan_of(spec: RunSpec) -> dict:
    return FIXED | {"runs": {"s/run": {"spec": spec.to_dict(), "unsupported": ""}}, "defaults": {}}


@pytest.mark.parametrize("text", [json.dumps(make_run(make_spec(), train_s="5")), '{"status": "comp'])
def test_tables_refuse_a_wrong_record_with_the_remedy(tmp_path, text):
    folder = tmp_path / "results" / "runs" / "s" / "run"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(text)
    with pytest.raises(RecordError) as error:
        list(read_outcomes(plan_of(make_spec()), tmp_path))
    assert str(folder / "run.json") in str(error.value)
    assert f"delete {folder}, and the next call of snakemake does the run again" in str(error.value)


def test_a_record_that_is_older_than_a_key_of_the_config_is_accepted(tmp_path):
    record = make_run(make_spec())
    del record["spec"]["powersgd_rank"]
    folder = tmp_path / "results" / "runs" / "s" / "run"
    folder.mkdir(parents=True)
    write_record(folder / "run.json", record)
    (outcome,) = read_outcomes(plan_of(make_spec()) | {"defaults": {"powersgd_rank": 2}}, tmp_path)
    assert outcome.status == "completed"
