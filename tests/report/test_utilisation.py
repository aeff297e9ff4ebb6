"""The table of utilisation says what constructed samples have in the measured windows, and nothing that they lack."""

import json
import os

import pytest

from helpers.published_networks import read_networks
from helpers.records import make_run
from helpers.specs import make_spec
from helpers.stored_runs import plan_of
from howmanygpus.measure.host.samples import COLUMNS, WORDS
from howmanygpus.report.tables import timelines
from howmanygpus.report.tables.helpers import summaries
from howmanygpus.report.tables.helpers.multiply_adds import count_multiply_adds
from howmanygpus.report.tables.helpers.peak_rates import find_card, find_peak
from howmanygpus.report.tables.utilisation import tabulate
from howmanygpus.report.telemetry import ACTIVITY, read_telemetry

A100 = "NVIDIA A100-SXM4-40GB"
WINDOWS = [(100.0, 2.0), (110.0, 3.0)]
"""End and length of the measured windows, of 10 steps of 64 images each; between them the run evaluates."""
SECONDS, NUM_IMAGES = 5.0, 2 * 10 * 64
COMPLETE = {"interval_s": 0.5, "problem": None, "missing": {}, "of_board": {}, "core_frac": 0.004}


def make_samples(device, node=0, step_s=0.5, until_s=120.0, **columns):
    """Return rows from 0 s until the end. columns: a value, or a function of the time."""
    times = [step_s * number for number in range(1, int(until_s / step_s) + 1)]
    values = [{name: value(t) if callable(value) else value for name, value in columns.items()} for t in times]
    return [{"time_s": t, "node": node, "device": device, **row} for t, row in zip(times, values, strict=True)]


def is_measured(time_s):
    return any(end - length < time_s <= end for end, length in WINDOWS)


def in_windows(inside, outside=99.0):
    """Return a value that only windows have, so that a sample of another time shows."""
    return lambda time_s: inside if is_measured(time_s) else outside


def store(results, *rows, spec, windows=WINDOWS, record=None, columns=COLUMNS):
    folder = results / "results" / "runs" / "run0"
    folder.mkdir(parents=True)
    changes = {"telemetry": COMPLETE} | (record or {})
    known = {key: value for key, value in changes.items() if value is not None}
    (folder / "run.json").write_text(json.dumps(make_run(spec, **known)))
    events = [{"event": "window", "phase": "warmup", "wall_s": 50.0, "elapsed_s": 40.0, "num_steps": 5}]
    for end, length in windows:
        events.append({"event": "window", "phase": "train", "wall_s": end, "elapsed_s": length, "num_steps": 10})
        events.append({"event": "evaluation", "wall_s": end + 4, "epoch": 1})
    (folder / "events.jsonl").write_text("\n".join(map(json.dumps, events)))
    rows = sorted((row for part in rows for row in part), key=lambda row: (row["node"], row["time_s"]))
    lines = [",".join(str(row.get(column, "")) for column in columns) for row in rows]
    (folder / "telemetry.csv").write_text("\n".join([",".join(columns), *lines]) + "\n")


def make_table(results, *rows, spec, **options):
    """Store a run and return its row of the table, with None for what is empty."""
    store(results, *rows, spec=spec, **options)
    (row,) = tabulate(plan_of(spec), results).to_dict("records")
    return {column: None if value != value else value for column, value in row.items()}


def gpus_spec(**changes):
    values = {"device": "cuda", "device_kind": "cuda", "num_gpus": 2, "global_batch_size": 64}
    return make_spec(**values | changes)


def test_means_are_those_of_the_measured_windows(tmp_path):
    one = make_samples("GPU-1", utilisation_frac=in_windows(0.9, 0.1), memory_gib=in_windows(30, 33))
    other = make_samples("GPU-2", utilisation_frac=in_windows(0.5, 0.0), memory_gib=10)
    host = make_samples("host", utilisation_frac=in_windows(0.25), memory_gib=200, disk_read_gib_per_s=in_windows(0.5))
    row = make_table(tmp_path, one, other, host, spec=gpus_spec())
    assert row["utilisation_frac"] == pytest.approx(0.7)
    assert row["utilisation_frac_lowest"] == pytest.approx(0.5)
    assert row["utilisation_frac_highest"] == pytest.approx(0.9)
    assert row["memory_gib_highest"] == 33, "of the whole run, and not the host's"
    assert row["host_utilisation_frac"] == pytest.approx(0.25) and row["disk_read_gib_per_s"] == pytest.approx(0.5)
    empty = ("network_rx_gib_per_s", "power_w", "joules_per_image", "mfu", "telemetry_problem", "sm_clock_mhz_begin")
    assert [row[column] for column in empty] == [None] * len(empty)


def test_samples_count_by_the_time_they_stand_for(tmp_path):
    """A long run is sampled more rarely later on."""
    early = make_samples("GPU-1", step_s=0.1, until_s=105.0, utilisation_frac=1.0)
    late = [row for row in make_samples("GPU-1", utilisation_frac=0.0) if row["time_s"] > 105]
    row = make_table(tmp_path, early, late, spec=gpus_spec(num_gpus=1))
    assert row["utilisation_frac"] == pytest.approx(2 / 5, abs=0.01), "2 s at 1, 3 s at 0"


def test_energy_counts_each_device_once_and_the_windows_only(tmp_path):
    """100 W and 300 W while it trains, 1000 W otherwise."""

    def count(watts):
        def energy_j(time_s):
            measured_s = sum(max(0.0, min(time_s, end) - (end - length)) for end, length in WINDOWS)
            return 5e6 + watts * measured_s + 1000 * (time_s - measured_s)

        return energy_j

    one = make_samples("GPU-1", energy_j=count(100), power_w=50)
    other = make_samples("GPU-2", energy_j=count(300), power_w=60)
    row = make_table(tmp_path, one, other, spec=gpus_spec())
    assert row["joules_per_image"] == pytest.approx(400 * SECONDS / NUM_IMAGES, rel=1e-6)
    assert row["images_per_joule"] == pytest.approx(NUM_IMAGES / (400 * SECONDS), rel=1e-6)
    assert row["energy_from"] == "counter" and row["power_w"] == pytest.approx(110)


def test_the_counter_of_a_grace_hopper_is_not_called_that_of_the_gpu(tmp_path):
    gpus = [make_samples(f"GPU-{i}", power_w=50, energy_j=lambda time_s: 200 * time_s) for i in (1, 2)]
    row = make_table(tmp_path, *gpus, spec=gpus_spec(), record={"device_model": "NVIDIA GH200 480GB"})
    assert row["energy_from"] == "module" and row["joules_per_image"] == pytest.approx(400 * SECONDS / NUM_IMAGES)


@pytest.mark.parametrize(
    "energy_j",
    [
        pytest.param("", id="no counter"),
        pytest.param(
            lambda time_s: 500 * time_s if time_s < 105 else 500 * (time_s - 105), id="a counter that was reset"
        ),
        pytest.param(lambda time_s: 500 * time_s if time_s < 99 else "", id="a counter that ends before the windows"),
    ],
)
def test_without_a_counter_energy_is_the_integral_of_power(tmp_path, energy_j):
    gpus = [make_samples(f"GPU-{i}", power_w=in_windows(200.0, 900.0), energy_j=energy_j) for i in (1, 2)]
    row = make_table(tmp_path, *gpus, spec=gpus_spec())
    assert row["joules_per_image"] == pytest.approx(400 * SECONDS / NUM_IMAGES) and row["energy_from"] == "power"


def test_energy_is_not_known_if_a_device_does_not_tell(tmp_path):
    one = make_samples("GPU-1", power_w=200.0, energy_j=lambda time_s: 200 * time_s)
    row = make_table(tmp_path, one, make_samples("GPU-2", utilisation_frac=1), spec=gpus_spec())
    assert row["joules_per_image"] is row["energy_from"] is row["power_w"] is None


def test_a_device_of_which_there_is_no_sample_makes_no_smaller_energy(tmp_path):
    row = make_table(tmp_path, make_samples("GPU-1", power_w=200.0), spec=gpus_spec())
    assert row["joules_per_image"] is None


def test_a_part_of_a_gpu_has_no_energy_of_its_own(tmp_path):
    part = make_samples("MIG-1", power_w=200.0, memory_gib=3, energy_j=lambda time_s: 200 * time_s)
    row = make_table(tmp_path, part, spec=gpus_spec(num_gpus=1))
    assert row["joules_per_image"] is row["power_w"] is None and row["memory_gib_highest"] == 3


def test_clocks_fall_and_temperatures_rise(tmp_path):
    """The first measured second at 1980 MHz, the last at 1400 MHz; temperatures once a second."""
    clock = lambda time_s: 1980 if time_s <= 99 else 1700 if time_s <= 109 else 1400  # noqa: E731
    warmer = lambda time_s: round(time_s) - 40 if time_s % 1 == 0 else ""  # noqa: E731
    row = make_table(
        tmp_path, make_samples("GPU-1", sm_clock_mhz=clock, temperature_c=warmer), spec=gpus_spec(num_gpus=1)
    )
    assert (row["sm_clock_mhz_begin"], row["sm_clock_mhz_end"]) == (1980, 1400)
    assert (row["temperature_c_begin"], row["temperature_c_end"]) == (59, 70)


def throttled(time_s):
    """Power for 1 of 5 measured seconds, heat during an evaluation; the other reasons are no throttling."""
    if 103 < time_s <= 105:
        return "hw_thermal_slowdown"
    return "sw_power_cap gpu_idle" if 98 < time_s <= 99 else "gpu_idle applications_clocks_setting"


def test_a_throttled_device_shows(tmp_path):
    slow = make_samples("GPU-1", sm_clock_mhz=1500, throttle_reasons=throttled)
    fast = make_samples("GPU-2", sm_clock_mhz=1980, throttle_reasons="")
    row = make_table(tmp_path, slow, fast, spec=gpus_spec())
    assert row["throttled_frac"] == pytest.approx(0.1) and row["throttle_reasons"] == "sw_power_cap"


@pytest.mark.parametrize(
    "telemetry",
    [
        pytest.param(COMPLETE | {"missing": {"GPU-1": ["throttle reasons (Not Supported)"]}}, id="refused"),
        pytest.param(None, id="a record of a former version"),
    ],
)
def test_a_card_that_does_not_say_whether_it_throttles_is_not_taken_to_be_unthrottled(tmp_path, telemetry):
    rows = make_samples("GPU-1", sm_clock_mhz=1500)
    row = make_table(tmp_path, rows, spec=gpus_spec(num_gpus=1), record={"telemetry": telemetry})
    assert row["throttled_frac"] is None and row["sm_clock_mhz_begin"] == 1500


def test_of_a_run_on_cpus_the_energy_is_that_of_the_nodes_processors(tmp_path):
    spec = make_spec(num_nodes=2, num_gpus=4, global_batch_size=64)
    rows = [
        make_samples(f"cpu{i}", node, utilisation_frac=in_windows(0.5 + 0.1 * i)) for i in (0, 1) for node in (0, 1)
    ]
    rows += [make_samples("host", node, power_w=80, energy_j=lambda time_s: 100 * time_s) for node in (0, 1)]
    row = make_table(tmp_path, *rows, spec=spec)
    assert row["utilisation_frac"] == pytest.approx(0.55)
    assert row["utilisation_frac_highest"] == pytest.approx(0.6)
    assert row["joules_per_image"] == pytest.approx(200 * SECONDS / NUM_IMAGES)
    assert (row["energy_from"], row["power_w"]) == ("processors", pytest.approx(160))
    assert row["mfu"] is row["throttled_frac"] is None


def test_a_problem_of_the_sampler_is_in_the_table(tmp_path):
    record = {"telemetry": COMPLETE | {"problem": "the sampler of node 0 failed: OSError"}}
    row = make_table(tmp_path, spec=gpus_spec(), record=record)
    assert row["telemetry_problem"] == "the sampler of node 0 failed: OSError" and row["utilisation_frac"] is None


def test_a_run_without_a_measured_window_has_a_row_without_values(tmp_path):
    row = make_table(tmp_path, make_samples("GPU-1", utilisation_frac=1.0), spec=gpus_spec(num_gpus=1), windows=[])
    assert row["study"] == "s" and row["utilisation_frac"] is None


def test_a_file_of_a_former_version_is_read(tmp_path):
    columns = COLUMNS[:7]
    rows = make_samples("cpu", utilisation_frac=0.5, memory_gib=1)
    row = make_table(tmp_path, rows, spec=make_spec(global_batch_size=64), columns=columns, record={"telemetry": None})
    assert row["utilisation_frac"] == 0.5 and row["host_utilisation_frac"] is None
    table = read_telemetry(tmp_path / "results" / "runs" / "run0")
    assert tuple(table.columns) == COLUMNS and (table["throttle_reasons"] == "").all()


def test_texts_of_samples_that_look_like_numbers_stay_texts(tmp_path):
    (tmp_path / "telemetry.csv").write_text("time_s,node,device,cores_frac\n0.1,0,host,0.5\n0.2,0,0,\n")
    table = read_telemetry(tmp_path)
    assert table["cores_frac"].tolist() == ["0.5", ""] and table["device"].tolist() == ["host", "0"]
    assert table["device"].dtype == table["cores_frac"].dtype == object


def test_samples_are_read_again_only_if_the_run_or_the_code_is_another_one(tmp_path, monkeypatch):
    spec = make_spec(global_batch_size=64)
    store(tmp_path, make_samples("cpu", utilisation_frac=0.25, memory_gib=1), spec=spec)
    path = tmp_path / "results" / "runs" / "run0" / "telemetry.csv"
    first, stored = read_both_tables(tmp_path, spec), path.stat()
    assert first == (0.25, "0.25")
    path.write_text(path.read_text().replace("0.25", "0.75"))
    os.utime(path, ns=(stored.st_atime_ns, stored.st_mtime_ns))
    assert path.stat().st_size == stored.st_size and read_both_tables(tmp_path, spec) == first
    monkeypatch.setattr(summaries, "hash_library", lambda: "other code")
    assert read_both_tables(tmp_path, spec) == (0.75, "0.75")
    path.write_text(path.read_text().replace("0.75", "0.50"))
    os.utime(path, ns=(stored.st_atime_ns, stored.st_mtime_ns + 1))
    assert read_both_tables(tmp_path, spec) == (0.5, "0.5")


def read_both_tables(results, spec):
    """Return the utilisation of the only run, and its first value over time."""
    (row,) = tabulate(plan_of(spec), results).to_dict("records")
    rows = timelines.tabulate(plan_of(spec), results)
    return row["utilisation_frac"], rows["utilisation_frac"].dropna().iloc[0].split(",")[0]


def test_a_run_that_was_not_started_has_no_samples(tmp_path):
    (tmp_path / "telemetry.csv").touch()
    assert len(read_telemetry(tmp_path)) == len(read_telemetry(tmp_path / "nowhere")) == 0


def write_data(results, shape, num_classes):
    (results / "data").mkdir()
    (results / "data" / "dataset.json").write_text(json.dumps({"image_shape": shape, "num_classes": num_classes}))


def test_mfu_is_the_networks_arithmetic_over_the_published_peak(tmp_path):
    """ResNet-50 at 256 images/s on two A100 in bf16: 4.089e9 multiply-adds, times 6, over 2 x 312e12."""
    write_data(tmp_path, [224, 224, 3], 1000)
    spec = gpus_spec(model="resnet50", precision="bf16", data_dir="data")
    row = make_table(tmp_path, spec=spec, record={"device_model": A100})
    assert row["multiply_adds"] == 4_089_184_256
    assert row["mfu"] == pytest.approx(NUM_IMAGES / SECONDS * 4_089_184_256 * 6 / (2 * 312e12))


@pytest.mark.parametrize(
    ("changes", "record"),
    [
        pytest.param({"model": "net", "model_folder": "net"}, {"device_model": A100}, id="a user's own network"),
        pytest.param({"model": "resnet44"}, {"device_model": f"{A100} MIG 1g.5gb"}, id="a part of a GPU"),
        pytest.param({"model": "resnet44"}, {"device_model": "NVIDIA Future"}, id="an unknown card"),
        pytest.param({"model": "resnet44", "data_dir": "gone"}, {"device_model": A100}, id="data that were deleted"),
    ],
)
def test_mfu_is_empty_where_it_is_not_known(tmp_path, changes, record):
    write_data(tmp_path, [32, 32, 3], 10)
    row = make_table(tmp_path, spec=gpus_spec(**{"data_dir": "data"} | changes), record=record)
    assert row["mfu"] is None


@pytest.mark.parametrize(
    ("reported", "unit", "expected"),
    [
        ({"flops_per_sample": 2e12, "parameters": 7}, "tokens", (2e12, "program")),
        ({"parameters": 10**9}, "tokens", (6e9, "parameters")),
        ({"parameters": 10**9}, "frames", (None, None)),
        ({}, "tokens", (None, None)),
    ],
    ids=["reported", "tokens", "no tokens", "nothing"],
)
def test_the_mfu_of_a_program_is_by_what_it_reported(tmp_path, reported, unit, expected):
    """Only a token is known to take two operations for each parameter, forward, and twice as many backward."""
    spec = gpus_spec(precision="bf16")
    store(tmp_path, spec=spec, record={"device_model": A100, "reported": reported})
    plan = plan_of(spec)
    plan["config"] = plan["config"] | {"program": {"unit": unit}}
    row = tabulate(plan, tmp_path).astype(object).where(lambda table: table.notna(), None).iloc[0]
    flops, source = expected
    assert (row["flops_per_image"], row["flops_from"], row["multiply_adds"]) == (flops, source, None)
    assert row["mfu"] == (None if flops is None else pytest.approx(NUM_IMAGES / SECONDS * flops / (2 * 312e12)))


def test_activity_is_a_mean_over_gpus_in_the_windows_or_has_a_reason(tmp_path):
    one = make_samples("GPU-1", sm_active_frac=in_windows(0.8), tensor_active_frac=0.5, dram_bandwidth_frac=0.25)
    other = make_samples("GPU-2", sm_active_frac=in_windows(0.6), tensor_active_frac=0.3, dram_bandwidth_frac=0.75)
    row = make_table(tmp_path / "given", one, other, spec=gpus_spec())
    assert [row[column] for column in ACTIVITY] == pytest.approx([0.7, 0.4, 0.5]) and row["activity_missing"] is None
    words = [f"{WORDS[column]} (Not Supported)" for column in ACTIVITY]
    lacking = COMPLETE | {"missing": {"GPU-1": ["energy (Unknown Error)", *words], "GPU-2": words}}
    row = make_table(tmp_path / "missing", make_samples("GPU-1"), spec=gpus_spec(), record={"telemetry": lacking})
    assert [row[column] for column in ACTIVITY] == [None] * 3 and row["activity_missing"] == "Not Supported"


@pytest.mark.parametrize("name", list(read_networks()))
def test_multiply_adds_are_those_that_are_documented(name):
    """A test counts the documented ones in the network itself."""
    network = read_networks()[name]
    found = count_multiply_adds(make_spec(model=name).to_dict(), network.image_shape, network.num_classes)
    assert found == network.multiply_adds


def test_multiply_adds_follow_channels_classes_and_the_size_that_is_cropped():
    """Gray images and 10 classes, and a crop that is not square."""
    spec = make_spec(model="resnet18").to_dict()
    whole = 1_814_073_344
    stem = 7 * 7 * 64 * 112 * 112
    assert count_multiply_adds(spec, (224, 224, 1), 10) == whole - 2 * stem - 512 * 990
    cropped = make_spec(model="resnet18", crop=[64, 448]).to_dict()
    assert count_multiply_adds(cropped, (512, 512, 3), 1000) == (whole - 512_000) * 64 * 448 / 224**2 + 512_000


@pytest.mark.parametrize(
    ("model", "options", "expected"),
    [
        ("small_cnn", {}, 9 * (3 * 32 * 25 + 32 * 64 * 25 + 64 * 64 * 9) + 64 * 7),
        (
            "vit_b16",
            {"patch": 2, "depth": 1, "heads": 2, "head_width": 4, "mlp": 5},
            4 * 12 * 8 + 5 * 336 + 2 * 25 * 8 + 56,
        ),
    ],
)
def test_multiply_adds_are_exact_for_other_sizes_and_options(model, options, expected):
    """Images of 5x5 pixels: a map of 5x5 becomes one of 3x3, and four whole patches are five tokens."""
    spec = make_spec(model=model, model_options=options).to_dict()
    assert count_multiply_adds(spec, (5, 5, 3), 7) == expected


def test_a_peak_is_that_of_the_card_and_the_precision():
    assert find_peak("Tesla V100-SXM2-32GB", "fp16") == 125e12
    assert find_peak("NVIDIA H100 80GB HBM3", "tf32") == 494.7e12
    assert find_peak("NVIDIA H100 PCIe", "bf16") == 756e12
    assert find_peak("Tesla V100-SXM2-32GB", "bf16") is None, "it has no bf16"
    assert find_peak(None, "fp32") is None


@pytest.mark.parametrize(
    ("model", "bf16", "memory_gb_per_s"),
    [
        ("NVIDIA GH200 480GB", 989.4, 4000),
        ("NVIDIA GH200 144G HBM3e", 989.4, 4900),
        ("NVIDIA B200", 2250, 7700),
        ("NVIDIA B300 SXM6 AC", 2250, 8000),
        ("NVIDIA L4", 121, 300),
        ("NVIDIA A10", 125, 600),
        ("NVIDIA A30", 165, 933),
        ("NVIDIA RTX A6000", 154.8, 768),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 503.8, 1792),
        ("NVIDIA A100-SXM-64GB", 358.2, 1640),
        ("NVIDIA A100-SXM4-80GB", 312, 2039),
        ("NVIDIA A100 80GB PCIe", 312, 1935),
        ("NVIDIA H100 80GB HBM3", 989.4, 3350),
    ],
)
def test_a_card_has_its_dense_peak_and_its_memory(model, bf16, memory_gb_per_s):
    assert find_peak(model, "bf16") == pytest.approx(bf16 * 1e12)
    assert find_card(model).memory_gb_per_s == memory_gb_per_s


@pytest.mark.parametrize("model", ["NVIDIA A100-SXM4-40GB MIG 1g.5gb", "NVIDIA A10G", "NVIDIA GH200", "AMD EPYC 7763"])
def test_a_card_that_is_not_listed_has_no_peak(model):
    assert find_card(model) is None
