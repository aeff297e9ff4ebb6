"""Puts the reports of a program on one time line, although clocks may be set while it runs."""

from dataclasses import replace

from howmanygpus.measure.program.reports import Report

CLOCKS_APART_S = 3600.0
"""How far the clock of the host on which a report was made may be from ours. Milliseconds since 1970 are far beyond."""
LATE_S = 0.25
"""How much later than others a report may come to the file: a few times as long as a busy machine pauses a process."""


class Timeline:
    """Seconds since 1970 by a steady clock, to which the times of reports are shifted.

    A report is made after the look before the one that finds it, so that the last report of each look tells how far the
    program's clock is from the steady one. If that changes, a clock was set. The moment of arrival then counts for this
    report, and the window that ends with it is in no rate. started_at: of the run, by the steady clock.
    """

    def __init__(self, started_at: float):
        self._started_at, self._last = started_at, started_at
        self._shift_s = 0.0
        self._lags_s: tuple[float, float] | None = None
        """Shortest and longest time from making a report to its arrival that is no sign of a set clock."""

    def place(self, reports: list[Report], arrived: float, waited_s: float = 0.0) -> list[Report]:
        """Return the reports that arrived at a moment of the steady clock, with their times by that clock.

        waited_s: since the look before, which may be late on a busy machine. Times that are no seconds since 1970 stay
        as they are, for the error that names them.
        """
        is_set = False
        if timed := [report.time for report in reports if report.has_time and self._is_possible(report.time, arrived)]:
            lag = arrived - timed[-1] - self._shift_s
            if self._lags_s is None:
                self._lags_s = min(lag, 0.0) - LATE_S, max(lag, 0.0) + LATE_S
            elif is_set := not self._lags_s[0] <= lag <= self._lags_s[1] + waited_s:
                self._shift_s += lag
                self._lags_s = -LATE_S, LATE_S
        placed = []
        for report in reports:
            if not self._is_possible(report.time, arrived):
                placed.append(report)
                continue
            moment = report.time + (self._shift_s if report.has_time else 0.0)
            if moment < self._last:
                # The clock was set between two reports that arrived together, or since the start of the run.
                is_set, self._shift_s = True, self._shift_s + self._last - moment
                moment = self._last
            placed.append(replace(report, time=moment, is_clear=not is_set))
            self._last, is_set = moment, False
        return placed

    def _is_possible(self, moment: float, arrived: float) -> bool:
        return self._started_at - CLOCKS_APART_S <= moment <= arrived + CLOCKS_APART_S
