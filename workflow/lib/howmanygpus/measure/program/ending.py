"""What a program's output says of how the program ends, collected while its lines pass."""

import re
import signal
from collections import deque

from howmanygpus.measure.loop.memory_messages import names_exhausted_memory

KEPT_LINES = 50
PREFIX = r"^\W*(?:\[[^\]]*\](?:<std(?:err|out)>)?:?\s*)*"
"""What launchers put before a line of a process, such as [rank3]: or [1,0]<stderr>:."""
EXCEPTION = re.compile(PREFIX + r"(?P<words>(?:\w+\.)*\w*(?:Error|Exception)(?::.*)?)$")
"""Last line of a traceback of Python."""
MODULE = re.compile(r"Lmod has detected the following error:.*|ERROR(?::\d+)?: Unable to locate a modulefile.*")
"""First line of the errors of Lmod and of Environment Modules; Lmod's may go on in the next line.

Versions of Environment Modules before 4 end with status 0 all the same.
"""
CHAINED = re.compile("The above exception was the direct cause of|During handling of the above exception")
CONSEQUENCE = re.compile(
    r"ChildFailedError|DistBackendError|DistNetworkError|DistStoreError|HorovodInternalError|CalledProcessError"
    r"|NCCL (?:error|operation)|[Cc]onnection (?:reset|closed|refused)|Broken ?[Pp]ipe"
)
"""Exceptions of processes whose partner has failed, and of launchers whose process has."""
SURVIVED = 2
"""Number of reports after which a program has survived an allocation that failed.

One may have been made before and read afterwards.
"""


class Ending:
    """The end of a program's output.

    has_begun: whether the shell came as far as the command. last: the last lines. module: what said first that a module
    cannot be loaded. exception: the last line of a traceback, one that is no consequence of another process's if there
    is any. memory: the line that says that the memory of a device is exhausted, empty if something else ended the
    program.
    """

    def __init__(self) -> None:
        self.last: deque[str] = deque(maxlen=KEPT_LINES)
        self.has_begun = False
        self.module, self.exception, self.memory = "", "", ""
        self._is_chained, self._has_cause = False, False
        self._reports_before = 0

    def add(self, line: str, num_reports: int) -> None:
        """Take a line. num_reports: reports that were read so far."""
        if self.module.endswith(":"):
            self.module += f" {line.strip()}"
        self.last.append(line)
        if (module := MODULE.search(line)) and not self.module:
            self.module = module[0].strip()
        if self.memory and num_reports - self._reports_before >= SURVIVED:
            self.memory = ""
        if names_exhausted_memory(line):
            if not self.memory:
                self.memory, self._reports_before, self._is_chained = line.strip(), num_reports, False
        elif CHAINED.search(line):
            self._is_chained = True
        if not (found := EXCEPTION.search(line)):
            return
        is_cause = not CONSEQUENCE.search(line)
        if is_cause and not names_exhausted_memory(line) and not self._is_chained:
            self.memory = ""
        if is_cause or not self._has_cause:
            self.exception, self._has_cause = found["words"].strip(), is_cause

    def describe(self, exit_status: int) -> str:
        """Return the end of the output; its last line says how the program ended, and why."""
        number = -exit_status if exit_status < 0 else exit_status - 128
        is_signal = number in set(map(int, signal.Signals))
        how = f"killed by {signal.Signals(number).name}" if is_signal else f"exit status {exit_status}"
        named = self.exception or self.module
        why = named or (self.last[-1] if self.last else "")
        before = list(self.last) if named else list(self.last)[:-1]
        return "\n".join([*before, f"the program ended with {how}{': ' + why if why else ''}"])
