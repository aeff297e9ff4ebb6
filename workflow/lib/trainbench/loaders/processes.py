"""How the worker processes of loaders start, and that they end with the run."""

import multiprocessing
import os

from trainbench.processes import die_with_parent

# Imported by the training process and by the server below: whoever they fork ends with them.
os.register_at_fork(after_in_child=die_with_parent)


def use_clean_workers(module: str) -> None:
    """Have worker processes be forks of a server that has imported `module` and done nothing else.

    Forks of the training process would inherit its threads' locks, its connections to the others, and its devices. The
    server ends when the training process does.
    """
    multiprocessing.set_start_method("forkserver", force=True)
    multiprocessing.set_forkserver_preload([module])
