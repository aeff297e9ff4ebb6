"""
The clocks of a run.

Every moment of the loop belongs to one phase. While a process is in any phase but `window`, its devices should have
nothing to do. If they have, the windows ended too early, and the rates of the run are wrong.
"""

from collections.abc import Callable
from dataclasses import dataclass

PHASES = ("window", "late", "barrier", "loss", "log", "evaluation")
"""Activities of a process: take the steps of a window; wait for steps of a window that should be complete; wait for
the other processes and exchange numbers with them; read the loss; write events; evaluate, and measure gradient
noise."""
LATE_FRAC, LATE_LEAST_S = 0.01, 0.02
"""Largest fraction of `late` in all phases, and seconds that are too short to tell. On idle devices `late` is 0.

On a busy machine, a thread of the framework waits for a core before it reports that a step is complete: MXNet's did for
6 ms in a run of 0.2 s, on two cores with twelve programs.
"""
LOSS_FRAC, LOSS_LEAST_S = 0.1, 0.05
"""Largest ratio of `loss` to all windows, and seconds per window that are too short to tell.

Reading losses copies one number per step to the host, which takes below 3 % of the windows in every framework with
steps of 2 ms.
"""


@dataclass
class Clocks:
    """Seconds of the run so far, by kind of window; the slowest process counts."""

    compile_s: float = 0.0
    warmup_s: float = 0.0
    measured_s: float = 0.0
    eval_s: float = 0.0
    data_wait_s: float = 0.0
    measured_steps: int = 0

    @property
    def train_s(self) -> float:
        """All training steps but the first, warm-up included."""
        return self.warmup_s + self.measured_s


class Laps:
    """Seconds of this process by phase. Each phase begins when the one before ends."""

    def __init__(self, clock: Callable[[], float]):
        self._clock = clock
        self.seconds = dict.fromkeys(PHASES, 0.0)
        self.last_end = clock()

    def end_at(self, phase: str, moment: float) -> None:
        """End a phase at a moment since the end of the one before."""
        self.seconds[phase] += moment - self.last_end
        self.last_end = moment

    def end(self, phase: str) -> float:
        """End a phase now and return its seconds."""
        now = self._clock()
        elapsed_s, self.last_end = now - self.last_end, now
        self.seconds[phase] += elapsed_s
        return elapsed_s


def find_mismatch(seconds: dict[str, float], num_windows: int) -> str:
    """Say why the windows cannot have been timed correctly; empty if nothing speaks against them.

    seconds: by phase, of the process with the most in each.
    """
    total_s, late_s, loss_s = sum(seconds.values()), seconds["late"], seconds["loss"]
    if late_s > max(LATE_FRAC * total_s, LATE_LEAST_S):
        return (
            f"the devices worked for {late_s:.3g} s of {total_s:.3g} s in no phase: "
            "steps were not complete at the end of their windows"
        )
    if loss_s > max(LOSS_FRAC * seconds["window"], num_windows * LOSS_LEAST_S):
        return (
            f"reading the losses took {loss_s:.3g} s beside {seconds['window']:.3g} s of training: "
            "steps were not complete at the end of their windows"
        )
    return ""
