"""Each tool's own library reads back what was written for the tool."""

import json
import subprocess
import sys

import pandas as pd
import pytest

from environments import read_python
from helpers.specs import make_spec
from helpers.stored_runs import collect, plan_of, store_run
from howmanygpus.report.tables import epochs
from howmanygpus_tools.export import TOOLS
from howmanygpus_tools.export.records import average_samples, make_records
from project import ROOT

READ = {
    "tensorboard": """
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import metadata
for path in sorted({each.parent for each in folder.rglob("events.out.tfevents.*")}):
    events = EventAccumulator(str(path)).Reload()
    start = events.SummaryMetadata(metadata.SESSION_START_INFO_TAG).plugin_data.content
    parameters = metadata.parse_session_start_info_plugin_data(start).hparams
    found[str(path.relative_to(folder / "s"))] = {
        "epochs": {tag: [[each.step, each.value] for each in events.Scalars(tag)] for tag in events.Tags()["scalars"]},
        "framework": parameters["framework"].string_value,
        "rate": parameters["optimizer.learning_rate"].number_value,
        "summary": events.Scalars("summary/images_per_s")[0].value,
        "time": events.Scalars("train/loss")[0].wall_time,
    }
""",
    "wandb": """
import struct
from wandb.proto.wandb_internal_pb2 import Record

def scan(data):
    # The log of LevelDB: blocks of 32 KiB with parts of records, each behind checksum, length and kind of the part.
    place, parts = 7, b""
    assert data[:4] == b":W&B"
    while place + 7 <= len(data):
        if (left := 2**15 - place % 2**15) < 7:
            place += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, place)
        parts += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):
            yield parts
            parts = b""

for path in sorted(folder.rglob("run-*.wandb")):
    config, epochs, summary, name = {}, {}, {}, ""
    for data in scan(path.read_bytes()):
        record = Record.FromString(data)
        if record.WhichOneof("record_type") == "run":
            name = record.run.display_name
            config |= {each.key: json.loads(each.value_json) for each in record.run.config.update}
        if record.WhichOneof("record_type") == "history":
            items = {each.key or ".".join(each.nested_key): json.loads(each.value_json) for each in record.history.item}
            for tag, value in items.items():
                epochs.setdefault(tag, []).append([items["epoch"], value])
        if record.WhichOneof("record_type") == "summary":
            summary |= {each.key or each.nested_key[0]: json.loads(each.value_json) for each in record.summary.update}
    found[name] = {
        "epochs": epochs, "framework": config["framework"], "rate": config["optimizer.learning_rate"],
        "summary": summary["images_per_s"], "time": summary["started_at"] + 9,
    }
""",
    "mlflow": """
import os
os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
from mlflow import MlflowClient
client = MlflowClient(tracking_uri=folder.as_uri())
experiment = client.get_experiment_by_name("s")
for run in client.search_runs([experiment.experiment_id]):
    history = {tag: client.get_metric_history(run.info.run_id, tag) for tag in run.data.metrics if "/" in tag}
    found[run.info.run_name] = {
        "epochs": {tag: [[each.step, each.value] for each in values] for tag, values in history.items()},
        "framework": run.data.params["framework"], "rate": float(run.data.params["optimizer.learning_rate"]),
        "summary": run.data.metrics["images_per_s"], "time": history["train/loss"][0].timestamp / 1000,
    }
""",
}
"""Programs that read a folder back with the tool's library, run by run."""


def make(folder, status="completed", program=None):
    """Store two runs of two epochs, and return their records. program: that of the study, if it has one."""
    specs = [make_spec(), make_spec(repeat=2)]
    for number, spec in enumerate(specs):
        store_run(folder, f"run{number}", spec, accuracies=(0.4, 0.8), window_s=(2.0,), status=status)
    plan = plan_of(*specs)
    plan["config"]["program"] = program
    runs, evaluations = collect(plan, folder)
    return make_records(plan, runs, epochs.tabulate(plan, evaluations, folder), folder)


def test_a_record_has_what_a_tool_shows_of_a_run(tmp_path):
    first, second = make(tmp_path)
    assert (first["study"], first["name"], first["status"]) == ("s", "run0", "completed")
    assert first["group"] == second["group"] and first["name"] != second["name"]
    assert [epoch["step"] for epoch in first["epochs"]] == [1, 2]
    assert [epoch["metrics"]["eval/accuracy"] for epoch in first["epochs"]] == [0.4, 0.8]
    assert first["epochs"][1]["metrics"]["train/seconds"] == 2.0
    assert "train/images_per_s" not in first["epochs"][0]["metrics"], "the first epoch is warm-up"
    assert first["summary"]["images_per_s"] == 40
    assert first["config"]["optimizer.learning_rate"] == make_spec().optimizer.learning_rate
    json.dumps(first, allow_nan=False)


def test_metrics_of_a_program_have_its_unit(tmp_path):
    first, _ = make(tmp_path, program={"unit": "tokens"})
    assert first["summary"]["tokens_per_s"] == 40 and "tokens_seen" in first["summary"]
    assert first["epochs"][1]["metrics"]["train/tokens_per_s"] == 40
    assert not any("images" in name for name in (*first["summary"], *first["epochs"][1]["metrics"]))


def test_only_trained_runs_are_exported(tmp_path):
    assert make(tmp_path, status="suspended") == []


def test_samples_are_those_of_the_epoch():
    samples = pd.DataFrame(
        [(1.0, 0, "GPU-1", 0.5, 10.0, 100.0), (2.0, 0, "GPU-1", 0.7, 20.0, 100.0), (2.0, 0, "GPU-2", 0.2, 5.0, 50.0)]
        + [(2.0, 0, "host", 1.0, 99.0, 999.0), (3.0, 0, "GPU-1", 0.0, 30.0, 0.0)],
        columns=["time_s", "node", "device", "utilisation_frac", "memory_gib", "power_w"],
    ).assign(temperature_c=float("nan"))
    found = average_samples(samples, 0.5, 2.0)
    assert found["system/utilisation_frac"] == pytest.approx((0.6 + 0.2) / 2)
    assert (found["system/power_w"], found["system/memory_gib"]) == (150, 20)
    assert average_samples(samples, 5.0, 9.0) == {}


@pytest.mark.parametrize("tool", sorted(TOOLS))
def test_what_was_written_for_a_tool_is_read_back(tmp_path, environment_record, tool):
    try:
        python = read_python(environment_record(tool))
    except subprocess.CalledProcessError as error:
        pytest.skip(f"the environment {tool} cannot be built here: {error}")
    (tmp_path / "results").mkdir()
    records, folder = make(tmp_path), tmp_path / "made" / tool
    path = tmp_path / "records.json"
    path.write_text(json.dumps(records))
    variables = {"PYTHONPATH": "workflow/lib", "HOME": str(tmp_path)}
    command = [python, "-m", "howmanygpus_tools.export.write", "--to", tool]
    for _ in range(2):
        subprocess.run([*command, "--records", str(path), "--folder", str(folder)], cwd=ROOT, env=variables, check=True)
    program = f"import json, pathlib, sys\nfolder, found = pathlib.Path(sys.argv[1]), {{}}\n{READ[tool]}"
    ended = subprocess.run(
        [python, "-c", f"{program}\nprint(json.dumps(found))", str(folder)],
        cwd=tmp_path,
        env=variables,
        check=True,
        capture_output=True,
        text=True,
    )
    found = json.loads(ended.stdout.splitlines()[-1])
    assert sorted(found) == ["run0", "run1"], "a second call writes each run once"
    for record in records:
        read = found[record["name"]]
        for name in ("train/loss", "eval/accuracy", "train/seconds"):
            expected = [
                [epoch["step"], epoch["metrics"][name]] for epoch in record["epochs"] if name in epoch["metrics"]
            ]
            assert [step for step, _ in read["epochs"][name]] == [step for step, _ in expected]
            assert [value for _, value in read["epochs"][name]] == pytest.approx([value for _, value in expected])
        assert (read["framework"], read["rate"]) == ("pytorch_ddp", pytest.approx(0.1))
        assert read["summary"] == pytest.approx(record["summary"]["images_per_s"])
        assert read["time"] == pytest.approx(record["started_at"] + 9, abs=1e-3)


def test_the_command_names_value_place_and_remedy(tmp_path):
    def call(*options):
        command = [sys.executable, "-m", "howmanygpus_tools.export", *options, "--results", str(tmp_path)]
        ended = subprocess.run(command, cwd=ROOT, env={"PYTHONPATH": "workflow/lib"}, capture_output=True, text=True)
        assert ended.returncode == 1
        return ended.stderr

    assert "did you mean tensorboard? There are mlflow, tensorboard, wandb" in call("--to", "tensorbord")
    assert f"--results: '{tmp_path}' has no results/tables" in call("--to", "mlflow")
    (tmp_path / "results" / "tables" / "digits").mkdir(parents=True)
    (tmp_path / "results" / "tables" / "digits" / "epochs.tsv").touch()
    assert "did you mean digits?" in call("--to", "mlflow", "--study", "digit")
