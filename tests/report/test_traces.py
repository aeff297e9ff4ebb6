"""From a trace of known contents come the busy part, the gaps between steps, and the operators that were added up."""

import gzip
import json

import numpy as np
import pandas as pd
import pytest
from matplotlib.patches import StepPatch

from helpers.constructed_traces import (
    STEP_S,
    WAIT_S,
    list_marks,
    repeat,
    write_chrome,
    write_mxnet,
    write_steps,
    write_xspace,
)
from helpers.specs import make_spec
from helpers.stored_runs import plan_of, store_run
from howmanygpus.config.schema import study_defaults
from howmanygpus.report.figures import list_figures
from howmanygpus.report.figures import traces as figure_of_traces
from howmanygpus.report.files import read_table, write_table
from howmanygpus.report.style import RING, RING_NOTE
from howmanygpus.report.tables import list_common, list_tables, trace_strips
from howmanygpus.report.tables import traces as table_of_traces
from howmanygpus.report.traces.activity import TraceError
from howmanygpus.report.traces.reading import read_window

STEPS = 5
"""Steps of the constructed traces; the first one is the lead."""
ON_CPU = [
    ("main", "conv", 0.03, 0.09),
    ("main", "matmul", 0.04, 0.06),
    ("main", "relu", 0.04, 0.05),
    ("autograd", "add", 0.08, 0.1),
]
"""A step that waits for 30 ms and computes for 70 ms; operators are nested, and two threads overlap."""
ON_GPU = {
    "kernel": [("7", "conv", 0.03, 0.06), ("8", "all-reduce", 0.05, 0.09)],
    "gpu_memset": [("7", "memset", 0.095, 0.1)],
    "gpu_memcpy": [("9", "HtoD", 0.01, 0.04)],
}
"""A step whose kernels on two streams overlap: nothing runs for 15 ms, and only a copy for 20 ms."""
HOST = {"cpu_op": repeat([("main", "aten::conv2d", 0.0, 0.1)], STEPS)}


def in_every_step(calls: dict) -> dict:
    return {category: repeat(listed, STEPS) for category, listed in calls.items()}


def test_operators_of_all_threads_make_a_cpu_busy(tmp_path):
    steps = write_steps(tmp_path, STEPS)
    window = read_window(tmp_path, write_chrome(tmp_path, steps, in_every_step({"cpu_op": ON_CPU})), "cpu")
    assert window.window_s == pytest.approx(4 * STEP_S)
    assert window.busy_frac == pytest.approx(0.7)
    assert window.input_wait_frac == pytest.approx(WAIT_S / STEP_S)
    assert window.copy_frac == pytest.approx(0)
    assert window.gaps_s == pytest.approx([WAIT_S] * 4)
    # conv 40 ms without what it contains, add 20, matmul 10 and relu 10.
    assert dict(window.operators) == pytest.approx({"conv": 0.5, "add": 0.25, "matmul": 0.125})


def test_the_ends_of_steps_are_on_the_clock_of_the_loop(tmp_path, monkeypatch):
    """A trace's clock that counts from 1970 resolves 0.2 us, which is no error of the loop's times."""
    monkeypatch.setattr("helpers.constructed_traces.SHIFT_S", 1764365454.123457)
    steps = write_steps(tmp_path, STEPS)
    window = read_window(tmp_path, write_chrome(tmp_path, steps, in_every_step({"cpu_op": ON_CPU})), "cpu")
    assert window.ends_s.tolist() == [step["finished_s"] - steps[0]["finished_s"] for step in steps[1:]]
    assert window.busy_frac == pytest.approx(0.7, abs=1e-5)


def test_the_union_of_kernels_makes_a_gpu_busy_whatever_the_host_does(tmp_path):
    steps = write_steps(tmp_path, STEPS)
    window = read_window(tmp_path, write_chrome(tmp_path, steps, in_every_step(ON_GPU) | HOST), "cuda")
    assert [device.name for device in window.devices] == ["gpu0"]
    assert window.busy_frac == pytest.approx(0.65)
    assert window.copy_frac == pytest.approx(0.2)
    assert window.gaps_s == pytest.approx([0.03] * 4)
    assert [name for name, _ in window.operators] == ["all-reduce", "conv", "memset"]


def test_a_device_that_idles_longer_has_the_longer_gaps(tmp_path):
    steps = write_steps(tmp_path, STEPS)
    second = repeat([("7", "conv", 0.05, 0.08)], STEPS)
    planes = {
        "/host:CPU": list_marks(steps),
        "/device:GPU:0": repeat([("Stream #7(Kernel)", "conv", 0.03, 0.1)], STEPS),
        "/device:GPU:1": [("Stream #7(Kernel)", *call[1:]) for call in second],
    }
    window = read_window(tmp_path, write_xspace(tmp_path, planes), "cuda")
    assert [device.name for device in window.devices] == ["gpu0", "gpu1"]
    assert window.busy_frac == pytest.approx((0.7 + 0.3) / 2)
    assert sorted(window.gaps_s) == pytest.approx([0.03] * 4 + [0.07] * 4)


def test_streams_of_copies_are_not_work_in_an_xspace(tmp_path):
    steps = write_steps(tmp_path, STEPS)
    lanes = {
        "kernel": "Stream #14(Compute)",
        "gpu_memset": "Stream #14(Compute)",
        "gpu_memcpy": "Stream #15(MemcpyH2D)",
    }
    gpu = [
        (lanes[kind], "MemcpyH2D" if kind == "gpu_memcpy" else name, start, end)
        for kind, listed in in_every_step(ON_GPU).items()
        for _, name, start, end in listed
    ]
    # Lines that the profiler derives from the kernels do not count twice, nor as work.
    derived = [("XLA Modules", "jit_step", 0.0, STEPS * STEP_S)]
    planes = {"/host:CPU": list_marks(steps), "/device:GPU:0": gpu + derived}
    window = read_window(tmp_path, write_xspace(tmp_path, planes), "cuda")
    assert (window.busy_frac, window.copy_frac) == (pytest.approx(0.65), pytest.approx(0.2))


def test_operators_of_a_cpu_are_told_from_waits_and_bookkeeping_in_an_xspace(tmp_path):
    """TensorFlow names the kind of an operator after a colon, and XLA's operators have a statistic."""
    steps = write_steps(tmp_path, STEPS)
    calls = [
        ("tf_Compute/1", "step/block/conv/Conv2D:Conv2D", 0.03, 0.06),
        ("tf_Compute/1", "ExecutorState::Process", 0.0, 0.1),
        ("tf_Compute/1", "step/IteratorGetNext:IteratorGetNext", 0.0, 0.03),
        ("tf_XLAEigen/2", "fusion.12", 0.06, 0.08),
        ("tf_XLAEigen/2", "ThunkExecutor::Execute", 0.0, 0.1),
        ("tf_data_private_threadpool/3", "decode/PyFunc:DecodeJpeg", 0.0, 0.1),
    ]
    planes = {"/host:metadata": [("x", "a:B", 0.0, 9.0)], "/host:CPU": list_marks(steps) + repeat(calls, STEPS)}
    window = read_window(tmp_path, write_xspace(tmp_path, planes, xla=("fusion.12",)), "cpu")
    assert window.busy_frac == pytest.approx(0.5)
    assert window.gaps_s == pytest.approx([0.05] * 4)
    assert dict(window.operators) == pytest.approx({"Conv2D": 0.6, "fusion": 0.4})


def test_operations_of_the_engine_are_counted_once_on_their_device(tmp_path):
    steps = write_steps(tmp_path, STEPS)
    calls = [("1", "Convolution", 0.03, 0.06), ("1", "DeleteVariable", 0.06, 0.1)]
    copies = [("2", "CopyCPU2GPU", 0.01, 0.04)]
    devices = {"cpu/0": repeat([("3", "Concat", 0.0, 0.1)], STEPS), "gpu/0": repeat([*calls, *copies], STEPS)}
    window = read_window(tmp_path, write_mxnet(tmp_path, steps, devices), "cuda")
    assert [device.name for device in window.devices] == ["gpu0"]
    assert (window.busy_frac, window.copy_frac) == (pytest.approx(0.3, abs=1e-4), pytest.approx(0.2, abs=1e-4))
    assert [name for name, _ in window.operators] == ["Convolution"]
    devices = {"cpu/0": repeat(calls, STEPS), "cpu/1": repeat([("1", "relu", 0.05, 0.08)], STEPS)}
    window = read_window(tmp_path, write_mxnet(tmp_path, steps, devices), "cpu")
    assert [device.name for device in window.devices] == ["cpu"] and window.busy_frac == pytest.approx(0.5, abs=1e-4)


@pytest.mark.parametrize("late_s", [0.0, 0.0005])
def test_a_late_view_of_the_end_of_a_step_takes_no_gap_within_a_step(tmp_path, late_s):
    """Kernels of the next step have begun when the loop sees the end: the gap before them is 0.2 ms."""
    steps = write_steps(tmp_path, STEPS, late_s=late_s)
    kernels = [
        ("7", "a", 0.0002, 0.0003),
        ("7", "b", 0.00035, 0.00045),
        ("7", "c", 0.0005, 0.05),
        ("7", "d", 0.08, 0.1),
    ]
    window = read_window(tmp_path, write_chrome(tmp_path, steps, {"kernel": repeat(kernels, STEPS)}), "cuda")
    assert window.gaps_s == pytest.approx([0.0002] * 4, abs=1e-6)


def test_a_few_short_operators_do_not_end_a_gap(tmp_path):
    steps = write_steps(tmp_path, STEPS)
    slivers = [("main", "read", 0.0005, 0.0006), ("main", "cast", 0.02, 0.0201), ("main", "end", 0.0998, 0.0999)]
    calls = {"cpu_op": repeat([*slivers, ("main", "conv", 0.03, 0.09)], STEPS)}
    window = read_window(tmp_path, write_chrome(tmp_path, steps, calls), "cpu")
    assert window.gaps_s == pytest.approx([0.04 - 0.0003] * 4)
    # Steps whose work is short are no slivers of one long gap.
    calls = {"cpu_op": repeat([("main", "conv", 0.03, 0.031)], STEPS)}
    window = read_window(tmp_path, write_chrome(tmp_path, steps, calls), "cpu")
    assert window.gaps_s == pytest.approx([0.099] * 4)


def test_resident_input_is_never_waited_for(tmp_path):
    steps = write_steps(tmp_path, STEPS, has_input=False)
    window = read_window(tmp_path, write_chrome(tmp_path, steps, in_every_step({"cpu_op": ON_CPU})), "cpu")
    assert window.input_wait_frac == 0 and window.busy_frac == pytest.approx(0.7)


def test_what_a_trace_lacks_is_said(tmp_path):
    steps = write_steps(tmp_path, STEPS)
    name = write_chrome(tmp_path, [], in_every_step({"cpu_op": ON_CPU}))
    with pytest.raises(TraceError, match="marks"):
        read_window(tmp_path, name, "cpu")
    name = write_chrome(tmp_path, steps, HOST)
    with pytest.raises(TraceError, match="GPU"):
        read_window(tmp_path, name, "cuda")
    name = write_chrome(tmp_path, steps, {})
    with pytest.raises(TraceError, match="no operator"):
        read_window(tmp_path, name, "cpu")


@pytest.mark.parametrize("keep", [0, 10, 0.5, "text"])
@pytest.mark.parametrize("form", ["chrome", "xspace"])
def test_a_damaged_trace_is_named(tmp_path, form, keep):
    steps = write_steps(tmp_path, STEPS)
    if form == "chrome":
        name = write_chrome(tmp_path, steps, in_every_step({"cpu_op": ON_CPU}))
    else:
        name = write_xspace(tmp_path, {"/host:CPU": list_marks(steps)})
    content = (tmp_path / name).read_bytes()
    if keep == "text":
        damaged = gzip.compress(b"{\xff\xff\xff not a trace")
    else:
        damaged = content[: keep if isinstance(keep, int) else int(keep * len(content))]
    (tmp_path / name).write_bytes(damaged)
    with pytest.raises(TraceError, match=name):
        read_window(tmp_path, name, "cpu")


def store_traced(results, name, spec, calls=None, **changes):
    """Store a run with a constructed trace, or with the problem that is given."""
    trace = {"problem": None, "file": "trace.json.gz", "bytes": 1, "steps": STEPS - 1, "lead_steps": 1} | changes
    if trace["problem"]:
        trace = {"problem": trace["problem"]}
    store_run(results, name, spec, trace=trace)
    if calls:
        folder = results / "results" / "runs" / name / "trace"
        write_chrome(folder, write_steps(folder, STEPS), calls)


def make_tables(tmp_path) -> dict[str, pd.DataFrame]:
    """Make both tables of a study with two variants, one of which waits for input, and a run without a trace."""
    specs = [
        make_spec(variant="no_prefetch", prefetch=0, trace=True),
        make_spec(variant="base", prefetch=2, trace=True),
        make_spec(variant="base", repeat=2, trace=True),
        make_spec(framework="chainer_mn", trace=True),
    ]
    store_traced(tmp_path, "run0", specs[0], in_every_step({"cpu_op": ON_CPU}))
    ahead = [("main", "conv", 0.002, 0.09), ("main", "add", 0.09, 0.1)]
    store_traced(tmp_path, "run1", specs[1], in_every_step({"cpu_op": ahead}))
    store_traced(tmp_path, "run2", specs[2], problem="RuntimeError: no start")
    store_run(tmp_path, "run3", specs[3])
    tables = {}
    for module in (table_of_traces, trace_strips):
        name = module.__name__.rpartition(".")[2]
        write_table(tmp_path / f"{name}.tsv", module.tabulate(plan_of(*specs), tmp_path))
        tables[name] = read_table(tmp_path / f"{name}.tsv")
    return tables


def test_the_table_has_what_the_devices_did_before_and_after_prefetching(tmp_path):
    table = make_tables(tmp_path)["traces"]
    assert list(table["variant"]) == ["no_prefetch", "base", "base"], "a run that was not to be traced has no row"
    before, after, without = (table.iloc[i] for i in range(3))
    assert (before["busy_frac"], after["busy_frac"]) == (pytest.approx(0.7), pytest.approx(0.98))
    assert before["idle_frac"] == pytest.approx(0.3)
    assert (before["gap_s_median"], after["gap_s_max"]) == (pytest.approx(0.03), pytest.approx(0.002))
    assert before["step_s_traced"] == pytest.approx(STEP_S)
    assert before["step_s_measured"] == pytest.approx(0.25), "steps of 0.2 and 0.3 s"
    assert (before["operator_1"], before["operator_1_frac"]) == ("conv", pytest.approx(0.5))
    assert pd.isna(after["operator_3"]), "there are two"
    assert (before["num_steps"], before["num_devices"], before["prefetch"]) == (4, 1, 0)
    assert before["trace"] == "results/runs/run0/trace"
    assert without["problem"] == "RuntimeError: no start" and pd.isna(without["busy_frac"])


def test_a_trace_that_was_deleted_or_edited_is_a_problem_in_the_table(tmp_path):
    spec = make_spec(trace=True)
    store_traced(tmp_path, "run0", spec, in_every_step({"cpu_op": ON_CPU}))
    (tmp_path / "results" / "runs" / "run0" / "trace" / "trace.json.gz").unlink()
    table = table_of_traces.tabulate(plan_of(spec), tmp_path)
    assert "trace.json.gz" in table["problem"].iloc[0]
    assert trace_strips.tabulate(plan_of(spec), tmp_path).empty
    (tmp_path / "results" / "runs" / "run0" / "trace" / "steps.json").write_text("{")
    assert "steps.json" in table_of_traces.tabulate(plan_of(spec), tmp_path)["problem"].iloc[0]


def test_the_parts_of_a_strip_add_up_to_the_busy_part(tmp_path):
    tables = make_tables(tmp_path)
    strip = tables["trace_strips"].query("variant == 'no_prefetch'")
    assert len(strip) == 80 and strip["busy_frac"].mean() == pytest.approx(0.7)
    assert strip["input_wait_frac"].mean() == pytest.approx(0.3)
    first = strip[strip["step"] == 1]
    assert list(first["busy_frac"].round(3)) == [0.0] * 6 + [1.0] * 14
    assert list(first["input_wait_frac"].round(3)) == [1.0] * 6 + [0.0] * 14
    assert list(strip["step"].unique()) == [1, 2, 3, 4]


def test_the_figure_has_a_strip_for_each_series_with_its_steps_and_waits(tmp_path):
    figure = figure_of_traces.draw(**make_tables(tmp_path))
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["pytorch_ddp base", "pytorch_ddp no_prefetch"]
    texts = [text.get_text() for text in axes.texts]
    assert "ran nothing 2%" in texts[0] and "gap 2 ms" in texts[0]
    assert "ran nothing 30%" in texts[1] and "gap 30 ms" in texts[1] and "step 0.1 s" in texts[1]
    *_, busy, waits = (patch.get_data() for patch in axes.patches if isinstance(patch, StepPatch))
    assert np.mean(busy.baseline - busy.values) / figure_of_traces.STRIP == pytest.approx(0.7)
    assert np.sum(waits.values > waits.baseline + 1e-6) == 4 * 6
    ends = axes.collections[1].get_segments()
    assert [segment[0][0] for segment in ends] == pytest.approx([0.25, 0.5, 0.75])


def test_the_figure_marks_runs_that_other_work_disturbed(tmp_path):
    tables = make_tables(tmp_path)
    assert list(tables["traces"]["disturbed"]) == [False] * 3
    tables["traces"]["disturbed"] = tables["traces"]["variant"] == "no_prefetch"
    (axes,) = figure_of_traces.draw(**tables).axes
    (rings,) = [line for line in axes.lines if line.get_color() == RING]
    assert list(rings.get_ydata()) == [1 + figure_of_traces.STRIP / 2] and RING_NOTE in axes.get_xlabel()


def test_a_study_without_a_trace_has_an_empty_figure_with_the_reason(tmp_path):
    spec = make_spec(trace=True)
    store_traced(tmp_path, "run0", spec, problem="no profiler of chainer_mn is known that writes a trace")
    tables = {"traces": table_of_traces.tabulate(plan_of(spec), tmp_path)}
    figure = figure_of_traces.draw(**tables, trace_strips=trace_strips.tabulate(plan_of(spec), tmp_path))
    assert not figure.axes and "no profiler" in figure.texts[0].get_text()


def test_only_studies_that_trace_have_its_tables_and_figure():
    for is_on in (True, False):
        study = study_defaults() | {"trace": is_on}
        assert ("traces" in list_tables(study)) == ("trace_strips" in list_tables(study)) == is_on
        assert ("traces" in list_figures(study)) == is_on
    assert "traces" not in list_common()


def test_a_number_with_the_highest_bit_is_read(tmp_path):
    """A thread may begin before the clock of the trace, as a negative number of ten bytes."""
    from howmanygpus.report.traces.xspace import read_varint, signed

    assert signed(read_varint(b"\xff" * 9 + b"\x01", 0)[0]) == -1
    assert json.dumps(read_varint(b"\xac\x02", 0)) == "[300, 2]"
