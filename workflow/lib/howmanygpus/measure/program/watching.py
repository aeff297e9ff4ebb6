"""Reads what the first process of a program reports while it runs, from its output or from a file."""

import json
import math
import re
import threading
import time
from collections.abc import Iterable
from typing import Any

from howmanygpus.measure.host.other_work import OtherWork
from howmanygpus.measure.program.progress import Progress
from howmanygpus.measure.program.reports import (
    NUMBER_FORM,
    REPORT_VARIABLE,
    Report,
    ReportError,
    find_unusual,
    match_output,
    parse_facts,
    parse_json,
)
from howmanygpus.measure.program.spec import ProgramSpec
from howmanygpus.measure.program.timeline import CLOCKS_APART_S, Timeline
from howmanygpus.measure.records import AttemptFolder

POLL_S = 0.05
REPORTS = "report.jsonl"
"""File of an attempt with the reports of the first process. Those of others have `.rank1@host` behind."""


class Watcher:
    """Follows a program from its start to its end. Of one whose output is read, the file has only facts.

    `ended` is set once the program has reported an outcome, or something that cannot be understood, which is then in
    `error`, or once a control run has measured its rate, or
    the try of a batch size its steps. others: measures other work while windows are measured; None
    if the run has more than one node.
    """

    def __init__(self, spec: ProgramSpec, attempt: AttemptFolder, started_at: float, others: OtherWork | None):
        self._patterns = [re.compile(text) for text in spec.program["report"] or ()]
        self._last_matched: dict[re.Pattern, str] = {}
        is_spread = spec.num_nodes > 1 and spec.program["start"] == "per_node"
        self._on_which_node = ", or let the node with NODE_RANK 0 report: no other one is read" if is_spread else ""
        self._events = attempt.events.open("a", encoding="utf-8")
        self.path = attempt.path / REPORTS
        # The host's clock may be set at any time, for example by NTP, and a duration would contain the change.
        self._epoch, self._timeline = time.time() - time.monotonic(), Timeline(started_at)
        control = spec.program.get("control", "")
        self.progress = Progress(spec.warmup_steps, spec.global_batch_size, started_at, self._write, control)
        self._last_step = spec.program.get("stop_after", math.inf)
        self.ended, self.error, self.num_reports = threading.Event(), "", 0
        self._others, self._measures = others, False
        self._stop, self._is_cut = threading.Event(), False
        self._thread = threading.Thread(target=self._follow_file, name="reports", daemon=True)
        self.path.touch()
        self._thread.start()

    def convert_to_wall_time(self, monotonic_s: float) -> float:
        """Return a time of the monotonic clock as seconds since 1970, by the host's clock when this object was made."""
        return self._epoch + monotonic_s

    def handle_output_line(self, line: str, arrived_s: float) -> None:
        """Take a line of the program's output, which counts if the study has regular expressions.

        arrived_s: when its text arrived, by time.monotonic().
        """
        if self._patterns and not self.ended.is_set():
            try:
                arrived = self.convert_to_wall_time(arrived_s)
                self._add(self._match(line, arrived), arrived)
            except Exception as error:  # without this thread, the program would wait to write more
                self._fail(error)

    def _match(self, line: str, arrived: float) -> Iterable[Report]:
        """Yield the reports of a line. Raises ReportError for one that an expression missed because of a number."""
        for pattern in self._patterns:
            if found := match_output([pattern], line, arrived):
                self._last_matched[pattern] = line
                yield from found
            elif number := find_unusual(line, self._last_matched.get(pattern, "")):
                problem = (
                    f"is not matched by '{pattern.pattern}', which matched others of this form, because of {number}"
                )
                raise ReportError(f"the line {line.strip()!r} {problem}; write numbers as {NUMBER_FORM}")

    def read_rest(self, is_cut: bool) -> None:
        """Take what is left in the file. is_cut: the program failed, so that its last line may be half a line."""
        self._is_cut = is_cut
        self._stop.set()
        self._thread.join()

    def close(self) -> None:
        """Take what is left in the file, and stop measuring; call after the program and its siblings have ended."""
        self.read_rest(is_cut=False)
        if self._others and self._measures:
            self._others.stop()
        self._events.close()

    def describe_disturbance(self) -> dict[str, Any]:
        others = self._others
        return {
            "other_cpu_frac": others.cpu_frac if others else None,
            "other_gpu_processes": others.gpu_processes if others else None,
        }

    def _follow_file(self) -> None:
        with self.path.open(encoding="utf-8", errors="replace") as file:
            rest, is_last, looked_s = "", False, time.monotonic()
            while not self.ended.is_set():
                is_last = is_last or self._stop.is_set()
                before_s, looked_s = looked_s, time.monotonic()
                *lines, rest = (rest + file.read()).split("\n")
                arrived_s = time.monotonic()
                arrived, waited_s = self.convert_to_wall_time(arrived_s), arrived_s - before_s
                if is_last and not self._is_cut:
                    # Nobody writes to the end of this line any more.
                    lines.append(rest)
                try:
                    if self._patterns:
                        for report in filter(None, map(parse_facts, lines)):
                            self.progress.note(report)
                    else:
                        self._add((parse_json(line, arrived) for line in filter(str.strip, lines)), arrived, waited_s)
                except Exception as error:  # what was not taken must not look like a shorter training
                    self._fail(error)
                if is_last:
                    return
                self._stop.wait(POLL_S)

    def explain_silence(self) -> str:
        """Say what is missing from a program that ended well; empty if it reported steps or an outcome."""
        if self.progress.steps or self.progress.status:
            return ""
        silent = [each for each in self._patterns if each not in self._last_matched and "step" in each.groupindex]
        if self.num_reports and not silent:
            return "reported no step above 0; report the steps done so far, see docs/program.md"
        if self._patterns:
            expressions = ", ".join(f"'{each.pattern}'" for each in silent or self._patterns)
            return f"printed no line that {expressions} would match; correct the study's `report`{self._on_which_node}"
        place = f"the file that ${REPORT_VARIABLE} names"
        return f"wrote no report to {place}; see docs/program.md for how it reports{self._on_which_node}"

    def _add(self, found: Iterable[Report], arrived: float, waited_s: float = 0.0) -> None:
        """Take reports that arrived together, waited_s after the look before; see Timeline.place.

        One that is no report is an error after those before it.
        """
        reports: list[Report] = []
        try:
            reports.extend(found)
        finally:
            for report in self._timeline.place(reports, arrived, waited_s):
                self._take(report, arrived)

    def _take(self, report: Report, arrived: float) -> None:
        self.num_reports += 1
        if report.time > arrived + CLOCKS_APART_S:
            problem = f"a report has the time {report.time}, which has not come yet"
            raise ReportError(f"{problem}; give seconds since 1970, or leave the time out")
        try:
            self.progress.add(report)
        except ReportError as error:
            raise ReportError(f"{error}; the report is {report.line!r}") from None
        if self.progress.status or self.progress.is_enough or self.progress.steps >= self._last_step:
            self.ended.set()
        elif self._others and not self._measures and self.progress.is_past_warmup:
            self._measures = True
            self._others.start()

    def _fail(self, error: Exception) -> None:
        self.error = str(error) if isinstance(error, ReportError) else f"{type(error).__name__}: {error}"
        self.ended.set()

    def _write(self, event: dict) -> None:
        self._events.write(json.dumps(event, allow_nan=False) + "\n")
        self._events.flush()
