"""What a program reports becomes windows, evaluations and clocks with the definitions of other runs."""

import json
import os
import re
import shlex
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from helpers.messages import says
from howmanygpus.measure.program.command import build_shell, fill_command
from howmanygpus.measure.program.ending import Ending
from howmanygpus.measure.program.process import read_lines
from howmanygpus.measure.program.progress import Progress
from howmanygpus.measure.program.reports import NUMBER_FORM, TERMINAL, ReportError, match_output, parse_json
from howmanygpus.measure.program.spec import ProgramSpec
from howmanygpus.report.tables.runs import describe_rates, describe_timing
from project import ROOT

PROGRAM = {
    **{"command": "train {size} {global_batch_size} {rendezvous} {{x}}", "start": "once", "files": {}, "report": None},
    **{"axes": {"size": "a b"}, "environment": None, "python": None, "modules": [], "container": None},
}
SPEC = ProgramSpec(
    *("p", "own_data", "p", {}, "p", "base", "program", "fp32", "cpu", "cpu", 1, 2, 32, 1, 64, 1, 5, "program"),
    *("once", "plain", 1, 3, PROGRAM),
)


def follow(*lines: dict, warmup_steps=2):
    events: list[dict] = []
    progress = Progress(warmup_steps, 64, 100.0, events.append)
    for line in lines:
        progress.add(parse_json(json.dumps(line), 0.0))
    return progress, events


def test_windows_end_with_reports_and_evaluations_are_in_no_rate():
    progress, events = follow(
        {"step": 0, "time": 103.0},
        {"step": 1, "time": 105.0},
        {"step": 2, "time": 106.0},
        {"step": 4, "time": 108.0, "samples": 250},
        {"epoch": 1, "step": 4, "metric": {"accuracy": 0.5}, "time": 113.0},
        {"step": 6, "time": 114.0, "samples": 370},
    )
    assert [event.get("phase") for event in events] == ["compile", "warmup", "train", None, "train"]
    found = progress.describe(120.0)
    assert (found["init_s"], found["compile_s"], found["warmup_s"], found["measured_s"]) == (3.0, 2.0, 1.0, 3.0)
    assert (found["eval_s"], found["train_s"], found["steps"], found["images_seen"]) == (5.0, 4.0, 6, 370)
    assert (found["wall_time_s"], found["data_wait_s"], events[3]["train_s"]) == (20.0, None, 3.0)
    windows = [event for event in events if event.get("phase") == "train"]
    rates = describe_rates({"spec": {"global_batch_size": 64}}, windows)
    assert rates["images_per_s"] == (370 - 128) / 3.0
    assert (rates["step_s_median"], rates["data_wait_frac"]) == (None, None), "steps 3 and 4 were one report"


def test_times_of_steps_are_known_if_each_is_reported():
    _, events = follow(*({"step": step, "time": 100.0 + step * step} for step in range(6)))
    windows = [event for event in events if event.get("phase") == "train"]
    assert describe_rates({"spec": {"global_batch_size": 64}}, windows)["step_s_median"] == 7.0


def test_measured_steps_that_were_all_reported_in_the_same_second_have_no_rate():
    """Times may be whole seconds. One such run must not take the tables of all others with it."""
    progress, events = follow(*({"step": step, "time": 105} for step in range(6)))
    record = {"spec": {"global_batch_size": 64}, **progress.describe(106.0)}
    assert progress.clocks.measured_steps == 3
    assert set(describe_timing(record, events).values()) == {None}


def test_a_window_with_an_evaluation_at_an_unknown_step_is_in_no_rate():
    progress, events = follow(
        {"step": 0, "time": 100.0},
        {"step": 5, "time": 101.0},
        {"epoch": 1, "metric": {"accuracy": 0.5}, "time": 102.0},
        {"step": 10, "time": 102.1},
        {"step": 15, "time": 103.0},
    )
    assert [event.get("phase") for event in events] == ["compile", None, "unclear", "train"]
    assert progress.clocks.measured_steps == 5


def test_steps_that_are_counted_anew_in_each_epoch_are_added_up():
    lines = [{"epoch": epoch, "step": step, "samples": 50 * step} for epoch in (1, 2, 3) for step in range(1, 5)]
    progress, events = follow(*(line | {"time": 101.0 + index} for index, line in enumerate(lines)))
    assert (progress.steps, progress.samples, progress.clocks.measured_steps) == (12, 600, 10)
    assert [event["first_step"] for event in events] == list(range(1, 13))
    assert sum(event["samples"] for event in events) == 600


@pytest.mark.parametrize(
    "metric", [[], [{"time": 115.0, "epoch": 1, "metric": {"auc": 0.5}}]], ids=["silent", "metric"]
)
def test_step_0_of_a_later_epoch_ends_the_time_between_two_epochs(metric):
    """Bars such as tqdm's are drawn at 0 when the training goes on."""
    first = [{"time": 101.0 + step, "epoch": 1, "step": step} for step in range(4)]
    second = [{"time": 120.0 + step, "epoch": 2, "step": step} for step in (0, 0, 1, 2, 3)]
    progress, events = follow(*first, *metric, *second, warmup_steps=1)
    assert [event["elapsed_s"] for event in events if event["event"] == "window"] == [1.0] * 6
    clocks = progress.clocks
    assert (clocks.measured_steps, clocks.measured_s, clocks.eval_s) == (5, 5.0, 16.0)


def find_epochs(*lines: dict) -> list[int]:
    _, events = follow(*({"time": 101.0 + number} | line for number, line in enumerate(lines)))
    return [event["epoch"] for event in events]


@pytest.mark.parametrize("first", [0, 1])
def test_the_first_epoch_is_1_also_if_a_program_counts_from_0(first):
    """Else a target that was reached after the first epoch took none."""
    metric = {"metric": {"auc": 0.9}}
    epochs = [{"epoch": epoch} | each for epoch in (first, first + 1) for each in ({"step": 1}, {"step": 2}, metric)]
    assert find_epochs(*epochs) == [1, 1, 1, 2, 2, 2]
    assert find_epochs({"epoch": first}, {"step": 1}, {"epoch": first + 1}, {"step": 1}) == [1, 2]
    assert find_epochs({"step": 5}, {"epoch": first, **metric})[1] == 1


def test_an_evaluation_before_the_first_step_is_that_of_epoch_0():
    metric = {"metric": {"auc": 0.5}}
    assert find_epochs({"step": 0}, {"epoch": 0, **metric}, {"epoch": 1, "step": 5}, {"epoch": 1, **metric}) == [
        0,
        1,
        1,
    ]


def mark(value: str, time_s: float) -> dict:
    return {"checkpoint": value, "time": time_s}


def test_the_time_of_a_checkpoint_is_in_no_window_and_no_evaluation():
    """Some are right after a report of a step, within a window, and within an evaluation."""
    progress, events = follow(
        *(mark("begin", 101.0), mark("end", 102.0), {"step": 0, "time": 103.0}, {"step": 2, "time": 105.0}),
        *(mark("begin", 105.0), mark("end", 115.0), {"step": 4, "time": 117.0}),
        *({"step": 6, "time": 119.0}, mark("begin", 120.0), mark("end", 140.0), {"step": 8, "time": 141.0}),
        *(mark("begin", 141.0), mark("end", 144.0), {"epoch": 1, "step": 8, "metric": {"f1": 1}, "time": 147.0}),
        *({"step": 10, "time": 149.0}, mark("begin", 149.0), mark("end", 150.0)),
    )
    windows = [event for event in events if event["event"] == "window"]
    assert [window["elapsed_s"] for window in windows] == [2.0] * 5
    assert [window["phase"] for window in windows] == ["compile", "train", "train", "train", "train"]
    assert [event["elapsed_s"] for event in events if event["event"] == "checkpoint"] == [1.0, 10.0, 20.0, 3.0, 1.0]
    found = progress.describe(150.0)
    assert (found["init_s"], found["eval_s"], found["checkpoint_s"]) == (2.0, 3.0, 35.0)
    assert found["init_s"] + found["compile_s"] + found["measured_s"] + 3.0 + 35.0 == found["wall_time_s"] == 50.0
    assert found["unended_checkpoint"] is None


@pytest.mark.parametrize(
    ("lines", "phases", "after"),
    [
        ([{"step": 4, "time": 108.0}, {"step": 6, "time": 109.0}], ["unclear", "train"], 2),
        ([mark("begin", 107.0), mark("end", 108.0), {"step": 4, "time": 109.0}], ["unclear"], 2),
        ([], [], 2),
    ],
    ids=["a step", "another one", "the end of the run"],
)
def test_a_checkpoint_that_never_ends_costs_one_window_and_is_named(lines, phases, after):
    begun = [{"step": 0, "time": 103.0}, {"step": 2, "time": 105.0}, mark("begin", 106.0)]
    progress, events = follow(*begun, *lines)
    assert [event["phase"] for event in events if event["event"] == "window"] == ["compile", *phases]
    assert progress.describe(120.0)["unended_checkpoint"] == after and not progress.status


def test_an_end_of_a_checkpoint_that_never_began_says_nothing():
    progress, _ = follow({"step": 0, "time": 103.0}, mark("end", 104.0), {"step": 2, "time": 105.0})
    found = progress.describe(106.0)
    assert (found["checkpoint_s"], found["compile_s"], found["unended_checkpoint"]) == (0.0, 2.0, None)


def test_what_a_program_says_of_itself_is_kept():
    progress, _ = follow(
        {"parameters": "1,000,000", "flops_per_sample": 2e9, "time": 101},
        {"step": 1, "flops_per_sample": 3e9, "time": 102},
    )
    assert progress.describe(103.0)["reported"] == {"parameters": 1_000_000, "flops_per_sample": 3e9}


def test_without_samples_the_steps_of_all_epochs_count():
    lines = [{"epoch": epoch, "step": step} for epoch in (1, 2) for step in (2, 4)]
    progress, _ = follow(*(line | {"time": 101.0 + index} for index, line in enumerate(lines)))
    assert (progress.steps, progress.samples) == (8, 8 * 64)


def test_without_a_report_of_step_0_start_and_first_step_are_unknown():
    progress, _ = follow({"step": 5, "time": 110.0}, {"step": 10, "time": 111.0})
    found = progress.describe(112.0)
    assert (found["init_s"], found["compile_s"], found["measured_s"], found["wall_time_s"]) == (None, None, 1.0, 12.0)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([{"step": 5, "time": 101}, {"step": 1, "time": 102}], "counted anew"),
        ([{"step": 5, "time": 101}, {"step": 4, "time": 102}], "--local-ranks-filter 0"),
        ([{"step": 5, "time": 99}], "before the start or an earlier report"),
        (
            [{"step": 5, "samples": 9, "time": 101}, {"step": 6, "samples": 8, "time": 102}],
            "8 samples were reported after 9",
        ),
        ([{"stepp": 5}], "unknown key 'stepp'"),
        ([{"step": "five"}], "value that is not a number"),
        ([{"step": 1.5}], "value that is not a number"),
        ([{"step": -1}], "negative number"),
        ([{"metric": {"accuracy": 1}}], "has a metric and no epoch"),
        ([{"epoch": 1, "metric": {"accuracy": float("nan")}}], "has a metric or a time that is not finite"),
        ([{"status": "done"}], "has an unknown status"),
        ([{"checkpoint": "done"}], "has an unknown checkpoint"),
        ([{"flops_per_sample": 0}], "has the flops_per_sample 0, which is not a positive number"),
        ([{"flops_per_sample": -6e9}], "has the flops_per_sample -6e+09"),
        ([{"flops_per_sample": float("inf")}], "has the flops_per_sample inf"),
        ([{"flops_per_sample": "many"}], "value that is not a number"),
        ([{"parameters": -1}], "has the parameters -1, which is not a positive number"),
        ([{"parameters": 1.5}], "value that is not a number"),
        ([[1]], "is not an object"),
    ],
)
def test_a_report_that_cannot_be_is_refused(lines, message):
    with pytest.raises(ReportError, match=re.escape(message)):
        follow(*lines)


def test_a_loss_that_is_not_finite_ends_the_run():
    progress, _ = follow({"step": 1, "loss": 1.0, "time": 101}, {"step": 2, "loss": float("inf"), "time": 102})
    assert (progress.status, progress.reason) == ("diverged", "training loss is inf at step 2")


def test_regular_expressions_find_reports_in_lines_of_output():
    patterns = [re.compile(r"step (?P<step>[\d,]+) loss (?P<loss>\S+)"), re.compile(r"epoch (?P<epoch>\d) (?P<f1>\S+)")]
    (step,) = match_output(patterns, "12:30 step 1,024 loss nan\n", 7.0)
    assert (step.step, step.time) == (1024, 7.0) and step.loss != step.loss
    (evaluation,) = match_output(patterns, "epoch 3 0.25", 8.0)
    assert (evaluation.epoch, evaluation.metric) == (3, {"f1": 0.25})
    assert match_output(patterns, "nothing", 9.0) == []


def test_placeholders_are_filled_and_values_are_quoted():
    filled = fill_command(SPEC, {"MASTER_ADDR": "n1", "MASTER_PORT": "20001"})
    assert filled == "train 'a b' 64 n1:20001 {x}"


def test_modules_are_loaded_by_a_login_shell_and_a_container_gets_the_whole_command():
    spec = ProgramSpec(**SPEC.to_dict() | {"program": PROGRAM | {"modules": ["cuda/12"], "container": "my image.sif"}})
    shell, option, script = build_shell(spec, "train 'a b' && echo done")
    assert (shell, option) == ("bash", "-lc") and script.startswith("module load cuda/12 || exit 1\n")
    assert "'my image.sif' bash -c " in script
    assert shlex.split(script)[-1].endswith("train 'a b' && echo done")


def read_ending(*lines: str, reports: tuple[int, ...] = ()) -> Ending:
    """Take lines of output. reports: number of reports that were read before each line; none if it is not given."""
    ending = Ending()
    for position, line in enumerate(lines):
        ending.add(line, reports[position] if reports else 0)
    return ending


def test_a_module_that_is_unknown_is_the_reason_unless_an_exception_follows():
    lmod = ("Lmod has detected the following error: The following module(s) are unknown:", '"cuda/12.4"', "#%Module")
    assert says(read_ending(*lmod).describe(1).splitlines()[-1], 'module(s) are unknown: "cuda/12.4"')
    assert read_ending(*lmod, "ValueError: no").describe(1).endswith("ValueError: no")
    assert '"cuda/12.4"' in read_ending("a banner", *lmod, "ValueError: no").module
    assert (
        "'cuda'" in read_ending("ERROR: Unable to locate a modulefile for 'cuda'", "end").describe(1).splitlines()[-1]
    )


def test_the_end_of_the_output_says_how_a_program_failed():
    said = read_ending("Traceback", "ValueError: no").describe(1)
    assert says(said.splitlines()[-1], "exit status 1", "ValueError: no")
    assert says(Ending().describe(-9), "SIGKILL") and Ending().describe(-9) == Ending().describe(137)


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (["CUDA kernel errors might be asynchronously reported at some other API call."], "KeyError: 'lr'"),
        (["frame #3: c10d::ProcessGroupNCCL::watchdogHandler() + 0x1a"], "KeyError: 'lr'"),
        (["torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ", "=" * 60], "KeyError: 'lr'"),
        (["[rank1]: torch.distributed.DistBackendError: NCCL error: remote process exited"], "KeyError: 'lr'"),
        (["[1,0]<stderr>:ValueError: second"], "ValueError: second"),
    ],
)
def test_the_reason_is_the_last_exception_that_is_no_consequence(after, expected):
    last = read_ending("Traceback (most recent call last):", "[rank3]: KeyError: 'lr'", *after).describe(1)
    assert last.splitlines()[-1].endswith(expected)


MEMORY = "[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"


@pytest.mark.parametrize(
    "line",
    [
        MEMORY,
        "RuntimeError: CUDA error: out of memory",
        "torch.AcceleratorError: CUDA error: out of memory",
        "RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "mxnet.base.MXNetError: pooled_storage_manager.h:161: cudaMalloc retry failed: out of memory",
        "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,388,608 bytes",
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 9 bytes.",
    ],
)
def test_exhausted_memory_of_a_device_is_found_far_before_the_end(line):
    frames = [f"frame #{number}: c10d::ProcessGroupNCCL" for number in range(200)]
    assert read_ending(line, *frames).memory == line
    assert read_ending(line, "[rank1]: torch.distributed.DistBackendError: NCCL error", *frames).memory == line


def test_exhausted_memory_of_the_host_is_none_of_a_device():
    assert not read_ending("numpy._core._exceptions._ArrayMemoryError: Unable to allocate 149. GiB").memory


def test_a_program_that_survived_a_failed_allocation_failed_of_something_else():
    handled = f"batch 64: {MEMORY}, trying 32"
    assert not read_ending(handled, "step 5", "step 6", "Killed", reports=(0, 1, 2, 3)).memory
    assert not read_ending(handled, "Traceback", "KeyError: 'lr'").memory
    chained = "The above exception was the direct cause of the following exception:"
    assert read_ending(MEMORY, chained, "Traceback", "RuntimeError: the training failed").memory == MEMORY


NUMBERS_OF_LOSS = {"nan": "nan", "-nan": "nan", "inf": "inf", "-0.12": "-0.12", "2.0e-05": "2e-05", ".5": "0.5"}


@pytest.mark.parametrize("text", NUMBERS_OF_LOSS)
def test_the_documented_form_takes_every_number(text):
    pattern = re.compile(rf"loss (?P<loss>{NUMBER_FORM}), (?P<samples>\d+) tokens|step (?P<step>\d+)")
    (report,) = match_output([pattern], f"loss {text}, 64 tokens", 0.0)
    assert str(report.loss) == NUMBERS_OF_LOSS[text] and report.samples == 64


@pytest.mark.parametrize("text", ["2.00e-05", "0,91"])
def test_a_number_that_is_taken_in_part_is_refused(text):
    with pytest.raises(ReportError, match=re.escape(NUMBER_FORM)):
        match_output([re.compile(r"step (?P<step>\d+): loss (?P<loss>[0-9.]+)")], f"step 3: loss {text}", 0.0)


@pytest.mark.parametrize("group", ["step", "samples", "epoch"])
def test_a_count_in_per_cent_is_refused(group):
    """A bar shows its per cent first, and a rate would be made of it."""
    with pytest.raises(ReportError, match=f"{group} 50%"):
        match_output([re.compile(rf"(?P<{group}>\d+)%\|")], "50%|#####     | 5/10 [00:03<00:03]", 1.0)


def test_numbers_that_end_a_clause_or_stand_in_a_list_are_whole():
    pattern = re.compile(r"(?P<epoch>\d+),(?P<step>\d+),(?P<loss>[0-9.]+)")
    for line in ("1,20,0.5", "1,20,0.5.", "1,20,0.5, done"):
        (report,) = match_output([pattern], line, 0.0)
        assert (report.epoch, report.step, report.loss) == (1, 20, 0.5)


def test_a_decimal_comma_is_no_thousands_separator():
    pattern = re.compile(r"step (?P<step>\S+) loss (?P<loss>\S+)")
    assert match_output([pattern], "step 1,024 loss 0.5", 0.0)[0].step == 1024
    with pytest.raises(ReportError, match="decimal point"):
        match_output([pattern], "step 1,024 loss 0,5000", 0.0)


TQDM = r"Epoch (?P<epoch>\d+): .* (?P<step>\d+)/\d+ \["
KERAS = [r"^Epoch (?P<epoch>\d+)/", r"^\s*(?P<step>\d+)/\d+ ", r"val_accuracy: (?P<accuracy>[-+.\w]+)"]
BARS = {
    "tqdm": (
        [TQDM],
        [f"Epoch {epoch}: 50%|██ | {step}/4 [00:01" for epoch in (1, 2) for step in (0, 1, 2, 2, 3, 4, 4)],
    ),
    "keras": (
        KERAS,
        [
            line
            for epoch in (1, 2)
            for line in (
                f"Epoch {epoch}/2",
                *(f"\x1b[1m{step}/4\x1b[0m ━━━ 1s 9ms/step - loss: 0.5" for step in (1, 2, 2, 3, 4, 4)),
                "4/4 ━━━ 2s 9ms/step - loss: 0.5 - val_accuracy: 0.9",
            )
        ],
    ),
}


@pytest.mark.parametrize("bar", BARS)
def test_progress_bars_are_read(bar):
    """They draw a step several times, and begin anew in each epoch."""
    patterns, lines = BARS[bar]
    events: list[dict] = []
    progress = Progress(2, 64, 100.0, events.append)
    for number, line in enumerate(lines):
        for report in match_output([re.compile(text) for text in patterns], line, 101.0 + number):
            progress.add(report)
    assert (progress.steps, progress.missing_steps) == (8, 0)
    assert [event["num_steps"] for event in events if event["event"] == "window"] == [1] * 8
    assert [event["epoch"] for event in events if event["event"] == "evaluation"] == ([1, 2] if bar == "keras" else [])


@pytest.mark.parametrize(("last", "missing"), [(40, 0), (30, 15), (45, 0)])
def test_steps_are_missing_if_a_further_report_was_due(last, missing):
    progress = Progress(2, 64, 100.0, lambda event: None)
    for step in (*range(10, last, 10), last):
        (report,) = match_output([re.compile(r"step (?P<step>\d+)")], f"step {step}/45", 100.0 + step)
        progress.add(report)
    assert progress.missing_steps == missing


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("false | tee log", 1),
        ("false; echo finished", 1),
        ("(exit 3) 2>&1 | cat; echo finished", 3),
        ("true | cat && echo finished", 0),
        ("if ! false; then echo no; fi", 0),
    ],
)
@pytest.mark.parametrize("modules", [[], ["cuda"]])
def test_a_failure_inside_a_command_is_that_of_the_command(tmp_path, command, status, modules):
    spec = ProgramSpec(**SPEC.to_dict() | {"program": PROGRAM | {"modules": modules}})
    shell, option, script = build_shell(spec, command)
    ended = subprocess.run([shell, option, f"module() {{ :; }}\n{script}"], cwd=tmp_path, capture_output=True)
    assert ended.returncode == status


def test_a_line_is_read_when_its_carriage_return_arrives():
    reading, writing = os.pipe()
    with open(reading, "rb") as stream:
        lines = read_lines(stream)
        for text, line in (("step 1\rst", "step 1"), ("ep 2\r\n\n", "step 2"), ("\xe4 3\r", "\xe4 3")):
            os.write(writing, text.encode())
            assert next(lines)[0] == line
        os.write(writing, b"no end")
        os.close(writing)
        assert [line for line, _ in lines] == ["no end"]


@pytest.mark.parametrize("before", ["\r", "\x1b[2K\r", "\x1b[1A\x1b[2K", "\r\x1b[K", "\x1b[0m\r"])
def test_a_bar_counts_when_it_is_drawn_although_the_next_drawing_ends_its_line(before, monkeypatch):
    """Otherwise each step has the time of the next one, and the last step of an epoch none."""
    drawn = [(f"step {step} of 4", 10.0 * step) for step in range(1, 5)]
    chunks, host = iter([*((before + text, moment) for text, moment in drawn), ("\n", 99.0)]), SimpleNamespace(now=0.0)

    def read(descriptor: int, size: int) -> bytes:
        text, host.now = next(chunks, ("", host.now))
        return text.encode()

    with open(os.devnull, "rb") as stream:
        monkeypatch.setattr(os, "read", read)
        monkeypatch.setattr(time, "monotonic", lambda: host.now)
        found = [(TERMINAL.sub("", line), arrived) for line, arrived in read_lines(stream)]
    assert [one for one in found if one[0]] == drawn


def test_the_module_that_users_copy_needs_nothing_and_writes_on_the_first_process_alone(tmp_path):
    module = ROOT / "examples" / "program" / "report_progress.py"
    code = "import sys; from report_progress import report; report(step=3, samples=9); print('torch' in sys.modules)"
    path, cases = tmp_path / "report.jsonl", [{"RANK": "0"}, {"RANK": "1"}, {}]
    for variables in cases:
        environment = {"HOWMANYGPUS_REPORT": str(path), "PYTHONPATH": str(module.parent), **variables}
        subprocess.run([sys.executable, "-S", "-c", code], env=environment, check=True, capture_output=True)
    reports = [parse_json(line, 0.0) for line in path.read_text().splitlines()]
    assert [(report.step, report.samples) for report in reports] == [(3, 9)] * 2
