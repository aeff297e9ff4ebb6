"""Start the worker processes of loaders, and make them end with the run."""

import multiprocessing
import os
from multiprocessing import forkserver

from howmanygpus.measure.host.processes import die_with_parent

# The training process and the fork server below import this module. Without it the server would outlive a killed
# training process, since its workers keep open the pipe whose end it waits for.
die_with_parent()

_forking = os.getpid()
"""The process that forked last, by which its child knows its parent"""


def _note_parent() -> None:
    global _forking
    _forking = os.getpid()


# Handlers of libraries may run in the child before this one, for seconds in which the parent may die.
os.register_at_fork(before=_note_parent, after_in_child=lambda: die_with_parent(parent=_forking))


def use_clean_workers(module: str) -> None:
    """Fork worker processes from a server that has imported `module` and done nothing else.

    Forks of the training process would inherit the locks of its threads, its connections to other processes, and its
    devices. Call this from a thread that lasts as long as the run: the kernel ends the server when the thread that
    started it ends.
    """
    multiprocessing.set_start_method("forkserver", force=True)
    multiprocessing.set_forkserver_preload([module])
    forkserver.ensure_running()
