"""How the worker processes of loaders start, and that they end with the run."""

import multiprocessing
import os
from multiprocessing import forkserver

from howmanygpus.train.host.processes import die_with_parent

# Both the training process, which did so before, and the server below import this. The server would live on otherwise:
# its workers hold what it waits for.
die_with_parent()
os.register_at_fork(after_in_child=die_with_parent)


def use_clean_workers(module: str) -> None:
    """Have worker processes be forks of a server that has imported `module` and done nothing else.

    Forks of the training process would inherit its threads' locks, its connections to the others, and its devices. To
    be called from a thread that lasts: the kernel takes the end of the one that starts the server for its parent's.
    """
    multiprocessing.set_start_method("forkserver", force=True)
    multiprocessing.set_forkserver_preload([module])
    forkserver.ensure_running()
