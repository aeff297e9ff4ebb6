"""TensorBoard: a folder of event files for each run, with scalars by epoch and the plugin HParams."""

from pathlib import Path
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams import metadata
from tensorboard.plugins.hparams.api_pb2 import STATUS_FAILURE, STATUS_SUCCESS
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo
from tensorboard.plugins.hparams.summary_v2 import hparams_pb
from tensorboard.summary.writer.event_file_writer import EventFileWriter


def write(records: list[dict[str, Any]], folder: Path, place: Path) -> None:
    for record in records:
        writer = EventFileWriter(str(folder / record["study"] / record["name"]))
        end = record["started_at"] + record["wall_time_s"]
        config = {name: as_parameter(value) for name, value in record["config"].items()}
        start = hparams_pb(config, start_time_secs=record["started_at"])
        writer.add_event(Event(summary=start, step=0, wall_time=record["started_at"]))
        for epoch in record["epochs"]:
            scalars = make_scalars(epoch["metrics"])
            writer.add_event(Event(summary=scalars, step=epoch["step"], wall_time=epoch["time"]))
        totals = {f"summary/{name}": value for name, value in record["summary"].items()}
        writer.add_event(Event(summary=make_scalars(totals), step=0, wall_time=end))
        writer.add_event(Event(summary=make_end(record["status"] == "completed", end), step=0, wall_time=end))
        writer.close()


def make_scalars(values: dict[str, float]) -> Summary:
    return Summary(value=[Summary.Value(tag=name, simple_value=value) for name, value in values.items()])


def make_end(is_completed: bool, end: float) -> Summary:
    """Return how a run ended. TensorBoard's own function for it needs TensorFlow."""
    info = SessionEndInfo(status=STATUS_SUCCESS if is_completed else STATUS_FAILURE, end_time_secs=end)
    described = metadata.create_summary_metadata(HParamsPluginData(session_end_info=info))
    return Summary(value=[Summary.Value(tag=metadata.SESSION_END_INFO_TAG, metadata=described)])


def as_parameter(value: Any) -> bool | float | str:
    """Return a value of a configuration as HParams has it: lists are texts."""
    return value if isinstance(value, bool | int | float | str) else str(value)
