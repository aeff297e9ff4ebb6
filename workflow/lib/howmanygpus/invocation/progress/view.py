"""The live view at the bottom of a terminal, drawn by rich: a line for each stage and one for each run that goes on."""

import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from howmanygpus.invocation.disk import read_end
from howmanygpus.invocation.dry_run.summary import RUNS, describe_duration
from howmanygpus.invocation.failing import NOT_STARTED, list_logs
from howmanygpus.invocation.progress.following import IN_QUEUE, RunFollower
from howmanygpus.invocation.progress.tracking import DONE, RUNNING, Step, Tracker

POLL_S, CLUSTER_POLL_S = 2.0, 5.0
"""Time between two looks at the files of runs, after each of which the view is drawn again."""
WIDE = 100
"""Columns from which bars have their full length, and runs a line each."""
BAR, NARROW_BAR, GAP = 24, 10, 2
OTHER_LINES = 8
"""Lines of a terminal that are left to the stages and to messages."""
LOG_BYTES = 2**12


class Screen:
    """Draws the view again and again, in a thread, until it is stopped. draw: returns the view for columns and lines.

    fail: is told what keeps the view from being drawn; the screen then stops by itself.
    """

    def __init__(
        self, console: Console, every_s: float, draw: Callable[[int, int], RenderableType], fail: Callable[[str], None]
    ):
        self._console, self._every_s, self._draw, self._fail = console, every_s, draw, fail
        # What is redirected to a file must not come to the terminal.
        self._live = Live(
            console=console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=sys.stdout.isatty(),
            redirect_stderr=sys.stderr.isatty(),
        )
        self._is_over = threading.Event()

    def start(self) -> None:
        self._live.start()
        self.refresh()
        threading.Thread(target=self._draw_again, name="progress", daemon=True).start()

    def refresh(self) -> None:
        # The view is made before rich takes its lock, because whoever prints holds the handler's lock first.
        view = self._draw(self._console.width, self._console.height)
        if not self._is_over.is_set():
            self._live.update(view, refresh=True)

    def _draw_again(self) -> None:
        while not self._is_over.wait(self._every_s):
            try:
                self.refresh()
            except Exception as error:
                self.stop()
                self._fail(f"The progress can no longer be shown: {type(error).__name__}: {error}")

    def print(self, text: str, style: str = "") -> None:
        """Print above the view. The terminal breaks long lines, so that they can be copied whole."""
        self._console.print(Text.from_ansi(text, style=style), soft_wrap=True)

    def stop(self) -> None:
        """Remove the view from the terminal."""
        self._is_over.set()
        self._live.stop()


def make_console(stream: TextIO, no_color: bool) -> Console | None:
    """Return a console that can show the view on a stream; None if the stream is none."""
    console = Console(file=stream, no_color=no_color or None, highlight=False)
    return console if console.is_interactive and not console.is_dumb_terminal else None


def describe_clock(seconds: float) -> str:
    """Return a duration as a clock shows it, such as `1:32` or `2:05:10`."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"


def draw(tracker: Tracker, followers: Mapping[str, RunFollower], width: int, height: int) -> RenderableType:
    """Return the view for a terminal of this size. followers: of the runs that go on, by their paths."""
    now, bar, title = time.monotonic(), BAR if width >= WIDE else NARROW_BAR, max(map(len, tracker.stages), default=0)
    stages = Table.grid(padding=(0, GAP, 0, 0))
    for stage in tracker.stages:
        running = tracker.select(stage, RUNNING)
        done, total = len(tracker.select(stage, DONE)), len(tracker.select(stage))
        if stage == RUNS or running or 0 < done < total:
            words = Text(tracker.count(stage))
            if stage == RUNS:
                left = tracker.estimate_left(sum(follower.is_started for follower in followers.values()))
                words.append(f"; about {describe_duration(left)} left (estimate)" if left.seconds else "")
            elif running:
                words.append(f": {describe_step(running[0], now)}")
            words.truncate(width - title - bar - 3 * GAP, overflow="ellipsis")
            stages.add_row(
                Text(stage.ljust(title)),
                ProgressBar(total, done, width=bar, complete_style="cyan", finished_style="green"),
                words,
            )
    return Group(stages, draw_runs(tracker, followers, now, width >= WIDE, max(2, height - OTHER_LINES)))


def draw_runs(
    tracker: Tracker, followers: Mapping[str, RunFollower], now: float, is_wide: bool, most: int
) -> RenderableType:
    """Return a line for each run that goes on, or two on a narrow terminal, and one for all that are in the queue.

    most: the largest number of lines for the former.
    """
    table = Table.grid(padding=(0, GAP, 0, 0))
    table.add_column(no_wrap=True, overflow="ellipsis")
    table.add_column(no_wrap=True, overflow="ellipsis")
    table.add_column(no_wrap=True, justify="right")
    running = [(step, step.run, followers.get(step.run.path)) for step in tracker.select(RUNS, RUNNING) if step.run]
    found = [(step, run, follower) for step, run, follower in running if follower and not follower.is_in_queue]
    in_queue = sum(follower.is_in_queue for _, _, follower in running if follower)
    shown = found[: most if is_wide else most // 2]
    for step, run, follower in shown:
        name = Text(f"  {tracker.name(run)}", style="" if follower.is_started else "dim")
        clock = Text(describe_clock(now - (step.started_at or step.begun_at)), style="dim")
        if is_wide:
            table.add_row(name, Text(follower.describe()), clock)
        else:
            table.add_row(name, clock)
            table.add_row(Text(f"    {follower.describe()}"))
    if len(found) > len(shown):
        table.add_row(Text(f"  and {len(found) - len(shown)} more", style="dim"))
    if in_queue:
        table.add_row(Text(f"  {in_queue} {IN_QUEUE}", style="dim"))
    return table


def describe_step(step: Step, now: float) -> str:
    """Return rule, object and duration of a step that goes on, the duration of such steps, and its log's last line."""
    lines = [line for log in list_logs(step.job) for line in read_end(log, LOG_BYTES).splitlines() if line.strip()]
    said = f", {lines[-1].strip()}" if lines and lines[-1] != NOT_STARTED.strip() else ""
    usual = f" of about {describe_clock(step.usual_s)}" if step.usual_s else ""
    return f"{step.name}, {describe_clock(now - step.begun_at)}{usual}{said}"
