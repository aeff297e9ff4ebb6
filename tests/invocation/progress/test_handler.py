"""The logger plugin prints what Snakemake's events mean, by Snakemake's interface and in place of its own handler."""

import fcntl
import json
import logging
import os
import pty
import re
import struct
import sys
import termios
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from snakemake.logging import ColorizingTextHandler, DefaultFilter, DefaultFormatter
from snakemake.settings.types import OutputSettings
from snakemake_interface_common.exceptions import InvalidPluginException
from snakemake_interface_logger_plugins.common import LogEvent
from snakemake_interface_logger_plugins.registry import LoggerPluginRegistry
from snakemake_interface_logger_plugins.tests import TestLogHandlerBase

from howmanygpus.invocation.dry_run.summary import NOTHING, format_s
from howmanygpus.invocation.progress import handler as plugin
from howmanygpus.invocation.progress import view
from howmanygpus.invocation.progress.adopting import NAME, adopt
from howmanygpus.invocation.progress.handler import LogHandler

RUN = "small/sleeping/base/arrays_fp32_cpu_gpus1_batch64_repeat{}"
RULES = {"train": "train", "observe_parity": "parity", "build_environment": "environments", "all": "Snakefile"}
RULES |= {"measure_allreduce": "probe", "probe_device": "probe"}
PLAN = SimpleNamespace(
    studies={"small": SimpleNamespace(config={"quality": {"metric": "accuracy"}, "time_limit_min": 60})}
)
OWN = str(Path(plugin.__file__).parents[1] / "deciding.py")
BLOCK = "This is a block of text of Snakemake."


class TestInterface(TestLogHandlerBase):
    __test__ = True

    def get_log_handler_cls(self):
        return LogHandler

    def get_log_handler_settings(self):
        return None


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Work in an empty folder: the time left depends on the runs that are in results/."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make_workflow(*rules, **values):
    """Return Snakemake's workflow with a job of each rule, whose ids begin with 1. Runs have different repeats."""
    jobs = [
        SimpleNamespace(
            jobid=number,
            rule=SimpleNamespace(name=rule, snakefile=f"workflow/rules/{RULES[rule]}.smk", resources={}),
            input=[],
            params=[],
            wildcards=SimpleNamespace(run=RUN.format(number)),
            wildcards_dict={"cell": str(number)},
            log=[f"results/logs/{rule}/{number}.log"],
            output=[f"results/{rule}{number}.json"],
            is_group=lambda: False,
        )
        for number, rule in enumerate(rules, 1)
    ]
    usual = {"local_exec": True, "touch": False, "is_main_process": True, "output_settings": OutputSettings()}
    usual["persistence"] = SimpleNamespace(metadata=lambda output: None)
    return SimpleNamespace(**usual | values, dag=SimpleNamespace(needrun_jobs=lambda: jobs, jobs=jobs))


def make_logger(name, settings):
    """Return a logger as Snakemake sets it up."""
    logger = logging.Logger(name)
    plain = ColorizingTextHandler(stream=sys.stderr)
    plain.setFormatter(DefaultFormatter(settings.quiet, settings.show_failed_logs))
    plain.addFilter(DefaultFilter(settings.quiet, False, False, settings.dryrun, settings.printshellcmds))
    logger.addHandler(plain)
    return logger


class Call:
    """A call of Snakemake with a job of each rule, whose events the plugin gets as Snakemake logs them."""

    def __init__(self, *rules, **settings):
        self.workflow = make_workflow(*rules, output_settings=OutputSettings(**settings))
        self.logger = make_logger("call", self.workflow.output_settings)
        self.handler = adopt(self.workflow, self.logger)

    def begin(self):
        self.handler.begin(PLAN, self.workflow)

    def log(self, event, level=logging.INFO, message=BLOCK, path="snakemake/jobs.py", **values):
        record = logging.LogRecord("snakemake", level, path, 1, message, None, None)
        vars(record).update(values | ({"event": event} if event else {}))
        self.logger.handle(record)

    def start(self, *job_ids):
        self.log(LogEvent.JOB_STARTED, jobs=list(job_ids))
        for job_id in job_ids:
            self.log(LogEvent.JOB_INFO, jobid=job_id, rule_name="train")
            self.log(LogEvent.SHELLCMD, shellcmd="python train.py", cmd="python train.py")

    def finish(self, job_id):
        self.log(LogEvent.JOB_FINISHED, job_id=job_id)
        self.log(LogEvent.PROGRESS, done=1, total=2)

    def fail(self, job_id, cause, is_final=True, blocked=(), log=()):
        told = {"cause": cause, "is_final": is_final, "blocked": set(blocked)}
        self.log(LogEvent.JOB_ERROR, logging.ERROR, jobid=job_id, log=list(log), **told)


def write_run(folder, number, status="completed", reason=""):
    run = folder / "results" / "runs" / RUN.format(number)
    run.mkdir(parents=True)
    spec = {"global_batch_size": 64, "weights_file": "net_seed1.safetensors"}
    (run / "run.json").write_text(json.dumps({"status": status, "reason": reason, "wall_time_s": 7.0, "spec": spec}))
    window = {"event": "window", "phase": "train", "first_step": 1, "num_steps": 10, "elapsed_s": 0.5, "loss": 0.5}
    (run / "events.jsonl").write_text(json.dumps(window) + "\n")


def test_each_run_that_has_ended_is_a_line_with_its_result(folder, capsys):
    call = Call("train", "train")
    call.begin()
    call.start(1)
    write_run(folder, 1)
    call.finish(1)
    call.start(2)
    write_run(folder, 2, "diverged", "training loss is nan")
    call.finish(2)
    call.handler.end()
    begin, first, second, end = capsys.readouterr().err.splitlines()
    assert begin == "To do: runs: 2"
    assert first.startswith(f"{RUN.format(1)}: completed, 1,280 images/s, loss 0.5, 7 s [1 of 2 done")
    assert second == f"{RUN.format(2)}: diverged: training loss is nan, 7 s [2 of 2 done, 1 without a result]"
    assert end.startswith("runs: 2 of 2 done, 1 without a result, in ")


def test_other_stages_have_one_line_when_they_are_complete(capsys):
    call = Call("observe_parity", "observe_parity", "build_environment", "all")
    call.begin()
    for job_id in (3, 1, 2, 4):
        call.start(job_id)
        call.finish(job_id)
    call.handler.end()
    first, environments, *begun, last = capsys.readouterr().err.splitlines()
    assert first == "To do: environments: 1, parity gate: 2"
    assert environments == "environments: 1 of 1 done" and last == "parity gate: 2 of 2 done"
    assert [line.split(";")[0] for line in begun] == [f"parity gate: observe_parity {n} begins" for n in (1, 2)]
    assert all(f"results/logs/observe_parity/{n}.log" in line for n, line in zip((1, 2), begun, strict=True))


def test_a_step_of_the_gate_says_how_long_it_took_before(capsys):
    call = Call("observe_parity")
    record = SimpleNamespace(rule="observe_parity", starttime=100.0, endtime=193.0, params=[], input=[])
    call.workflow.persistence.metadata = lambda output: record
    call.begin()
    call.start(1)
    assert format_s(93.0) in capsys.readouterr().err.splitlines()[-1]


def test_what_the_preflight_found_is_said_when_its_step_is_done(folder, capsys):
    call = Call("probe_device", "measure_allreduce", "measure_allreduce")
    (folder / "results").mkdir()
    for name, findings in (("probe_device1", ["no index"]), ("measure_allreduce2", ["5 of 25 GB/s"])):
        told = [{"level": "warning", "text": text} for text in findings]
        (folder / "results" / f"{name}.json").write_text(json.dumps({"findings": told}))
    (folder / "results" / "measure_allreduce3.json").write_text("{}")
    call.begin()
    for job_id in (1, 2, 3):
        call.start(job_id)
        call.finish(job_id)
    assert capsys.readouterr().err.splitlines()[1:] == [
        "warning: no index",
        "warning: 5 of 25 GB/s",
        "probes and all-reduces: 3 of 3 done",
    ]


def test_a_call_that_has_nothing_to_do_says_so(capsys):
    call = Call("all")
    call.begin()
    call.handler.end()
    assert capsys.readouterr().err == f"{NOTHING}\n"


def test_a_failed_run_is_explained_once(capsys):
    first, second = (f"{RUN.format(number)}: crashed: a reason; the attempt is kept in there" for number in (1, 2))
    call = Call("train", "train")
    call.begin()
    call.start(1)
    call.log(None, logging.ERROR, first, OWN)
    call.fail(1, first, is_final=False)
    call.start(1)
    call.log(LogEvent.ERROR, logging.ERROR, 'RuleException:\nCalledProcessError in file "train.smk", line 65:\nset -e')
    call.fail(1, first)
    call.start(2)
    call.fail(2, second)
    lines = capsys.readouterr().err.splitlines()[1:]
    assert lines == [first, "It is tried again.", first, second]
    call.log(None, logging.ERROR, f"{RUN.format(1)}: SLURM refused the job", OWN)
    call.fail(1, f"{RUN.format(1)}: refused: SLURM refused the job; the attempt is kept in there")
    assert capsys.readouterr().err.splitlines() == [f"{RUN.format(1)}: SLURM refused the job"]
    call.handler.end()
    assert capsys.readouterr().err.startswith("runs: 0 of 2 done, 2 failed, in ")


GATE_LOG = Path("results/logs/observe_parity/1.log")


def fail_gate(shows: bool) -> None:
    """Let a step of the gate fail in a job of SLURM, whose log has a hundred lines of Snakemake's."""
    GATE_LOG.with_name("7.log").write_text("of Snakemake\n" * 100)
    call = Call("observe_parity", "train", show_failed_logs=shows)
    call.begin()
    call.start(1)
    logs = [str(GATE_LOG), str(GATE_LOG.with_name("7.log"))]
    call.fail(1, f"observe_parity ({GATE_LOG}): the reason", blocked=[RUN.format(2)], log=logs)
    call.handler.end()


@pytest.mark.parametrize(("shows", "length"), [(False, 2), (True, 2), (True, 100)])
def test_a_failed_step_shows_a_short_log_if_the_user_wants_it_and_otherwise_the_reason_with_the_path(
    capsys, shows, length
):
    GATE_LOG.parent.mkdir(parents=True)
    GATE_LOG.write_text("begins\n" * (length - 1) + "the reason\n")
    fail_gate(shows)
    lines = capsys.readouterr().err.splitlines()
    if shows and length < 20:
        assert {"Failed: observe_parity", "begins", "the reason"} <= set(lines)
    else:
        assert f"Failed: observe_parity ({GATE_LOG}): the reason" in lines and "begins" not in lines
    assert "of Snakemake" not in lines
    assert lines[-1].startswith("runs: 0 of 1 done, 1 cannot begin, in ")


def test_only_messages_of_the_project_and_warnings_are_printed_between_the_jobs(capsys):
    call = Call("train")
    for event in (LogEvent.WORKFLOW_STARTED, LogEvent.RUN_INFO, LogEvent.RESOURCES_INFO):
        call.log(event)
    call.log(None, message="Nothing to be done")
    call.begin()
    call.start(1)
    call.log(None, message="Select jobs to execute...")
    call.log(None, logging.WARNING, "a warning of Snakemake")
    call.log(None, message="a message of the project", path=OWN)
    call.log(LogEvent.ERROR, logging.ERROR, "MissingOutputException")
    call.handler.end()
    call.log(None, message="Complete log(s): there")
    printed = capsys.readouterr().err
    lines = [line for line in printed.splitlines() if not line.startswith(("To do", "runs:"))]
    assert lines == [
        "Nothing to be done",
        "a warning of Snakemake",
        "a message of the project",
        "MissingOutputException",
        "Complete log(s): there",
    ]
    assert "\x1b" not in printed


def test_touching_prints_what_snakemake_prints(capsys):
    call = Call("train")
    call.workflow.touch = True
    call.log(LogEvent.RUN_INFO, message="Job stats:")
    assert capsys.readouterr().err == "Job stats:\n"


@pytest.mark.parametrize("asked", ["dryrun", "verbose", "printshellcmds", "debug_dag", "quiet"])
def test_options_on_the_output_keep_snakemakes_own(asked):
    settings = OutputSettings(**{asked: {"rules"} if asked == "quiet" else True})
    logger = make_logger("options", settings)
    before = list(logger.handlers)
    assert adopt(make_workflow(output_settings=settings), logger) is None and logger.handlers == before


def test_another_logger_plugin_of_the_user_stays():
    logger = logging.Logger("other")
    logger.addHandler(logging.NullHandler())
    assert adopt(make_workflow(), logger) is None and len(logger.handlers) == 1


def test_jobs_of_a_cluster_print_as_they_did():
    logger = make_logger("job", OutputSettings())
    assert adopt(make_workflow(is_main_process=False), logger) is None


def test_a_snakemake_that_does_not_take_the_plugin_warns_and_prints_itself(monkeypatch, capsys):
    def refuse(registry, name, module):
        raise InvalidPluginException(name, "plugin does not define a new attribute.")

    monkeypatch.setattr(LoggerPluginRegistry, "register_plugin", refuse)
    logger = make_logger("refusing", OutputSettings())
    before = list(logger.handlers)
    assert adopt(make_workflow(), logger) is None and logger.handlers == before
    assert "plugin does not define a new attribute." in capsys.readouterr().err


def test_the_plugin_is_registered_under_its_name():
    Call("train")
    assert LoggerPluginRegistry().get_plugin(NAME).name == NAME


@pytest.fixture
def terminal(monkeypatch):
    """Return a terminal of 60 columns: `call` makes a call whose standard error it is, `read` returns what it got."""
    main, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 60, 0, 0))
    os.set_blocking(main, False)
    # The view is drawn when a test asks for it, and not in between.
    monkeypatch.setattr(view, "POLL_S", 1e6)
    for name, value in {"TERM": "xterm", "COLUMNS": "", "LINES": ""}.items():
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name, raising=False)

    with os.fdopen(other, "w") as stream:

        def make_call(*rules):
            monkeypatch.setattr("sys.stderr", stream)
            return Call(*rules)

        def read():
            printed = b""
            with suppress(BlockingIOError):
                while True:
                    printed += os.read(main, 2**12)
            return printed.decode()

        yield SimpleNamespace(call=make_call, read=read)
    os.close(main)


def test_a_terminal_has_a_view_above_which_lines_are_printed(folder, terminal):
    call = terminal.call("train", "train")
    call.begin()
    assert "0 of 2 done" in terminal.read()
    call.start(1)
    call.handler._screen.refresh()
    view = terminal.read()
    assert "sleeping 1 x cpu batch 64 repeat 1" in view and "starts" in view
    call.log(None, message=f"a message of the project: {'word ' * 20}whole", path=OWN)
    printed = terminal.read()
    assert f"a message of the project: {'word ' * 20}whole\x1b" in printed.replace("\r", ""), "no line is broken"
    assert printed.index("a message") < printed.index("of 2 done")
    write_run(folder, 1)
    call.finish(1)
    assert "sleeping 1 x cpu batch 64 repeat 1: completed, 1,280 images/s, loss 0.5, 7 s" in terminal.read()
    call.handler.end()
    rest = terminal.read()
    assert rest.endswith("s\r\n") and "runs: 1 of 2 done, in " in rest and "\x1b[?25h" in rest, "the cursor is back"
    call.log(None, message="afterwards")
    assert re.sub(r"\x1b\[\d*m", "", terminal.read()) == "afterwards\r\n"


def test_a_view_that_cannot_be_drawn_is_given_up_and_the_call_goes_on(folder, terminal, monkeypatch):
    call = terminal.call("train")
    call.begin()
    screen = call.handler._screen
    terminal.read()
    monkeypatch.setattr(screen, "_every_s", 0.01)
    monkeypatch.setattr(screen, "_draw", lambda width, height: 1 / 0)
    screen._draw_again()
    assert "The progress can no longer be shown: ZeroDivisionError" in terminal.read()
    write_run(folder, 1)
    call.start(1)
    call.finish(1)
    assert "completed, 1,280 images/s" in terminal.read()


def test_what_cannot_be_followed_is_printed_as_snakemake_does(capsys):
    call = Call("train")
    call.workflow.dag = None
    call.begin()
    call.log(None, message="Select jobs to execute...")
    said, passed = capsys.readouterr().err.splitlines()
    assert said.startswith("The progress cannot be shown: AttributeError: ") and passed == "Select jobs to execute..."


def test_an_end_without_notice_leaves_the_terminal_as_it_was(terminal):
    call = terminal.call("train")
    call.begin()
    call.handler.close()
    assert "\x1b[?25h" in terminal.read()
    assert call.handler._screen is None
