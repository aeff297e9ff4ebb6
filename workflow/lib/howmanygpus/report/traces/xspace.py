"""
Traces as an XSpace, the protocol buffer that TensorFlow and JAX write; tsl/profiler/protobuf/xplane.proto describes it.

A space has planes: the host, and one for each GPU. A plane has lines, which are threads or streams, and a line has
events, whose names are in a table of the plane. The few fields that are needed are read here, because the library of
protocol buffers and the generated classes would be two more packages.
"""

import gzip
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

from howmanygpus.report.traces.activity import HOST, Activity, TraceError

GPU_PLANE = re.compile(r"/device:GPU:(\d+)")
HOST_PLANE = "/host:CPU"
STREAM, COPY = "Stream", "Memcpy"
"""Beginnings of the lines of a GPU's streams, and of the names of copies. Other lines are derived from the streams."""
DATA_THREADS = "tf_data"
TENSORFLOW_OPERATOR = re.compile(r"[^:\s]+:([A-Za-z_]\w*)")
NO_WORK = re.compile(r"Iterator|Dataset|Optional|Send|Recv|PyFunc|Placeholder")
"""Operators of TensorFlow that wait for input or hand it over. The threads of tf.data do no step's work, either."""
XLA_OPERATOR = "hlo_op"
"""Statistic that the operators of a compiled program have on a CPU."""
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types (Protocol Buffers, "Encoding")."""


def read_varint(data: bytes, place: int) -> tuple[int, int]:
    """Return a number of seven bits a byte, and the place after it."""
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7


def read_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field of a message. Fields of a fixed width are bytes."""
    place, end = 0, len(data)
    while place < end:
        tag, place = read_varint(data, place)
        kind = tag & 7
        if kind == VARINT:
            value, place = read_varint(data, place)
            yield tag >> 3, value
            continue
        if kind == BYTES:
            length, place = read_varint(data, place)
        elif kind in (FIXED64, FIXED32):
            length = 8 if kind == FIXED64 else 4
        else:
            raise TraceError(f"a field has the unknown wire type {kind}")
        if place + length > end:
            raise TraceError("a field is longer than its message")
        yield tag >> 3, data[place : place + length]
        place += length


def signed(value: int) -> int:
    """Return a 64-bit number that may be negative."""
    return value - (1 << 64) if value >> 63 else value


def read_metadata(entry: bytes) -> tuple[int, str]:
    """Return number and name of an entry of the table of events: a key and a message, whose name is its field 2."""
    number, name = 0, ""
    for field, value in read_fields(entry):
        if field == 1 and isinstance(value, int):
            number = value
        elif field == 2 and isinstance(value, bytes):
            names = [each for inner, each in read_fields(value) if inner == 2 and isinstance(each, bytes)]
            name = names[0].decode(errors="replace") if names else ""
    return number, name


def read_line(data: bytes) -> tuple[str, int, list[bytes]]:
    """Return name, begin in nanoseconds, and events of a thread or stream."""
    name, begin_ns, events = "", 0, []
    for field, value in read_fields(data):
        if field == 2 and isinstance(value, bytes):
            name = value.decode(errors="replace")
        elif field == 3 and isinstance(value, int):
            begin_ns = signed(value)
        elif field == 4 and isinstance(value, bytes):
            events.append(value)
    return name, begin_ns, events


def read_event(data: bytes) -> tuple[int, int, int]:
    """Return number of the name, begin after that of the line, and duration, both in picoseconds."""
    found = {field: value for field, value in read_fields(data) if field <= 3 and isinstance(value, int)}
    return found.get(1, 0), signed(found.get(2, 0)), signed(found.get(3, 0))


def has_statistic(event: bytes, number: int | None) -> bool:
    """Return whether an event has the statistic with this number; its statistics are its field 4."""
    statistics = [value for field, value in read_fields(event) if field == 4 and isinstance(value, bytes)]
    return any(dict(read_fields(statistic)).get(1) == number for statistic in statistics if number is not None)


def read_plane(data: bytes) -> tuple[str, dict[int, str], dict[str, int], list[bytes]]:
    """Return name, names of events by number, numbers of statistics by name, and lines of a plane."""
    name, names, statistics, lines = "", {}, {}, []
    for field, value in read_fields(data):
        if not isinstance(value, bytes):
            continue
        if field == 2:
            name = value.decode(errors="replace")
        elif field == 3:
            lines.append(value)
        elif field == 4:
            number, said = read_metadata(value)
            names[number] = said
        elif field == 5:
            number, said = read_metadata(value)
            statistics[said] = number
    return name, names, statistics, lines


def read_xspace(path: Path, mark: str) -> Activity:
    """Read a `.xplane.pb.gz`. mark: beginning of the names of the marks. Raises TraceError if it is damaged."""
    activity = Activity()
    try:
        with gzip.open(path, "rb") as file:
            planes = [value for field, value in read_fields(file.read()) if field == 1 and isinstance(value, bytes)]
        if not planes:
            raise TraceError("it has no planes")
        for plane in planes:
            add_plane(activity, plane, mark)
    except (OSError, EOFError, IndexError, zlib.error, TraceError) as error:
        raise TraceError(f"{path.name} is not a trace: {error}") from None
    activity.keep_gpus()
    return activity


def add_plane(activity: Activity, plane: bytes, mark: str) -> None:
    """Add what a plane says of the host or of a GPU; other planes say nothing of either."""
    plane_name, names, statistics, lines = read_plane(plane)
    gpu = GPU_PLANE.fullmatch(plane_name)
    if not gpu and plane_name != HOST_PLANE:
        return
    is_work: dict[int, bool] = {}
    for line in lines:
        lane, begin_ns, events = read_line(line)
        if lane.startswith(DATA_THREADS) or (gpu and not lane.startswith(STREAM)):
            continue
        for event in events:
            number, offset_ps, duration_ps = read_event(event)
            name, start_s = names.get(number, ""), begin_ns / 1e9 + offset_ps / 1e12
            end_s = start_s + duration_ps / 1e12
            if gpu:
                device = activity.devices[f"gpu{gpu[1]}"]
                (device.copies if name.startswith(COPY) else device.work)[lane].add(name, start_s, end_s)
                continue
            if number not in is_work:
                is_work[number] = is_operator(name) or has_statistic(event, statistics.get(XLA_OPERATOR))
            if name.startswith(mark):
                activity.marks[int(name.removeprefix(mark))] = start_s
            elif is_work[number]:
                activity.devices[HOST].work[lane].add(shorten(name), start_s, end_s)


def is_operator(name: str) -> bool:
    """Return whether an event of the host is an operator of TensorFlow, such as `block1/conv/Conv2D:Conv2D`."""
    found = TENSORFLOW_OPERATOR.fullmatch(name)
    return found is not None and not NO_WORK.search(found[1])


def shorten(name: str) -> str:
    """Return an operator's kind: what TensorFlow writes after its name, or XLA's name without the number."""
    return name.rpartition(":")[2].split(".")[0]
