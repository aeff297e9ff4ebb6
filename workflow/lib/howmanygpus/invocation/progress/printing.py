"""The lines of a call: one for each run that has ended, each failure, and each stage that is complete."""

import json
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from snakemake.logging import show_logs
from snakemake_interface_logger_plugins.common import LogEvent
from snakemake_interface_logger_plugins.settings import OutputSettingsLoggerInterface

from howmanygpus.invocation.disk import read_end
from howmanygpus.invocation.dry_run.summary import NOTHING, PROBES, RUNS, describe_duration, format_s
from howmanygpus.invocation.modules import find_own_name
from howmanygpus.invocation.progress.following import EndedRun, RunFollower, read_ended_run
from howmanygpus.invocation.progress.tracking import RUNNING, WAITING, Step, Tracker
from howmanygpus.report.outcomes import read_unit
from howmanygpus.study.durations import BY_TASK, RecordedRuns
from howmanygpus.study.plan import Plan
from howmanygpus.study.runs import Run

FOLLOWED = 40
"""Most runs whose events are read at the same time. A terminal has no lines for more."""
SHORT_LOG = 20
"""Most lines of the log of a failed step that are shown. Of a longer one, its last message is, with its path."""


def list_short_logs(job: Any) -> list[str]:
    """Return the logs of a step for which a screen has room; those of its job of SLURM repeat the step's command."""
    counted = {str(log): len(read_end(Path(log)).splitlines()) for log in job.log}
    return [log for log, count in counted.items() if 0 < count <= SHORT_LOG]


class Printer:
    """Takes Snakemake's events. say: prints a line, in a style of rich. is_live: whether a view shows what is left."""

    def __init__(self, plan: Plan, tracker: Tracker, say: Callable[..., None], settings: OutputSettingsLoggerInterface):
        self._plan, self.tracker, self._say, self._settings = plan, tracker, say, settings
        self.is_live = False
        self._followers: dict[str, RunFollower] = {}
        self._last = ""
        self._expect()

    def _expect(self) -> None:
        """Read how long the runs take that are still to do."""
        recorded = RecordedRuns(self._plan)
        runs = [step.run for step in self.tracker.select(RUNS, WAITING, RUNNING) if step.run]
        self.tracker.expected = {run.path: recorded.expect(run) for run in runs}

    def look(self) -> dict[str, RunFollower]:
        """Read what the runs have written since the last time. Return those that are followed, by their paths."""
        followers = dict(self._followers)
        started = [follower for follower in followers.values() if follower.is_started]
        waiting = [follower for follower in followers.values() if not follower.is_started]
        for follower in (*waiting, *started[:FOLLOWED]):
            follower.look()
        for step in self.tracker.select(RUNS, RUNNING):
            if step.run and (found := followers.get(step.run.path)) and found.is_started and not step.started_at:
                step.started_at = time.monotonic()
        return followers

    def announce(self) -> None:
        """Say how much there is to do."""
        counts = [f"{stage}: {len(self.tracker.select(stage))}" for stage in self.tracker.stages]
        self._say(f"To do: {', '.join(counts)}{self._describe_left()}" if counts else NOTHING)

    def take(self, event: LogEvent | None, record: Any) -> bool:
        """Print what a message means for the progress of the call; return whether nobody else needs to print it."""
        if event == LogEvent.JOB_INFO:
            self._begin(record.jobid)
        elif event == LogEvent.JOB_FINISHED and record.job_id in self.tracker.steps:
            self._finish(record.job_id, self.tracker.steps[record.job_id])
        elif event == LogEvent.JOB_ERROR and record.jobid in self.tracker.steps and hasattr(record, "cause"):
            self._fail(record, self.tracker.steps[record.jobid])
            return True
        self._last = str(record.msg)
        return False

    def _begin(self, job_id: int) -> None:
        self.tracker.begin(job_id)
        if (step := self.tracker.steps.get(job_id)) and step.run:
            unit = read_unit(self._plan.studies[step.run.study].config)
            self._followers[step.run.path] = RunFollower(step.run.path, not self.tracker.is_serial, unit)
        elif step and find_own_name(step.job.rule) in BY_TASK and not self.is_live:
            took = f", which took {format_s(step.usual_s)} before" if step.usual_s else ""
            logs = f"; {step.job.log[0]} says how far it is" if step.job.log else ""
            self._say(f"{step.stage}: {step.name} begins{took}{logs}")

    def _finish(self, job_id: int, step: Step) -> None:
        if step.run:
            self._finish_run(job_id, step.run)
        else:
            self.tracker.finish(job_id)
        if step.stage == PROBES:
            self._tell_findings(step)
        self._tell_stage(step)

    def _tell_findings(self, step: Step) -> None:
        """Print what a probe or an all-reduce measurement found, before more device-hours are spent."""
        for path in map(Path, step.job.output):
            with suppress(OSError, ValueError, KeyError):
                for finding in json.loads(path.read_text())["findings"]:
                    self._say(f"{finding['level']}: {finding['text']}", "yellow")

    def _finish_run(self, job_id: int, run: Run) -> None:
        self._followers.pop(run.path, None)
        is_first = self.tracker.is_first(run)
        try:
            config = self._plan.studies[run.study].config
            ended = read_ended_run(run.path, config["quality"]["metric"], read_unit(config))
        except (OSError, ValueError, KeyError) as error:
            ended = EndedRun(True, f"done; its record cannot be read: {error}", None)
        self.tracker.finish(job_id, ended.is_completed, ended.seconds)
        if is_first:
            self._expect()
        took = f", {format_s(ended.seconds)}" if ended.seconds else ""
        if self.is_live:
            self._say(f"{self.tracker.name(run)}: {ended.words}{took}", "" if ended.is_completed else "yellow")
        else:
            self._say(f"{run.path}: {ended.words}{took} [{self.tracker.count(RUNS)}{self._describe_left()}]")

    def _describe_left(self) -> str:
        left = self.tracker.estimate_left()
        order = "" if self.tracker.is_serial else ", one after the other"
        return f"; about {describe_duration(left)} left{order} (estimate)" if left.seconds else ""

    def _fail(self, record: Any, step: Step) -> None:
        """Print why a step failed, unless the message before has said it. See invocation.failing for the record."""
        self.tracker.fail(record.jobid, record.is_final)
        self.tracker.block(record.blocked)
        told = record.cause
        if step.run:
            self._followers.pop(step.run.path, None)
            # The message before may be that of invocation.failing, or SLURM's refusal.
            said = self._last.removeprefix(f"{step.run.path}: ")
            told = "" if said != self._last and said in told else told
        elif self._settings.show_failed_logs and not self.is_live and (logs := list_short_logs(step.job)):
            told = "\n".join([f"Failed: {step.job.rule.name}", *show_logs(logs)])
        else:
            told = f"Failed: {told}"
        again = "" if record.is_final else "It is tried again."
        if told or again:
            self._say("\n".join(filter(None, [told, again])), "red")
        self._tell_stage(step)

    def _tell_stage(self, step: Step) -> None:
        """Say that a stage is complete. Of runs, each has a line of its own."""
        if step.stage != RUNS and not self.tracker.select(step.stage, WAITING, RUNNING):
            self._say(f"{step.stage}: {self.tracker.count(step.stage)}")

    def conclude(self) -> None:
        """Print the last line: how many runs are done, and how long that took."""
        if self.tracker.select(RUNS):
            self._say(f"runs: {self.tracker.count(RUNS)}, in {format_s(self.tracker.elapsed_s)}")
