"""
One process of a run whose backend does not wait for its devices. Everything else is as in any other run.

Keras's `fit` has no wait of its own that would replace the missing one: its callback closes windows by the loop, which
calls the backend's.
"""

from typing import cast

from howmanygpus.train.loop import train
from howmanygpus.train.loop.backend import Backend, load_backend
from howmanygpus.train.preflight.waits import STUDY
from howmanygpus.train.spec import RunSpec


def do_not_wait(_: Backend) -> None:
    """Replace wait_until_idle."""


def load_without_wait(spec: RunSpec) -> type[Backend]:
    """Return a run's backend without its wait. Raises ValueError for a run of a study, whose rates would be wrong."""
    if spec.study != STUDY:
        raise ValueError(
            f"{spec.study}: this run belongs to a study, and without waits its rates would be wrong; start it by "
            "howmanygpus.train.start.launch"
        )
    backend = load_backend(spec)
    return cast(type[Backend], type(f"{backend.__name__}WithoutWait", (backend,), {"wait_until_idle": do_not_wait}))


if __name__ == "__main__":
    train.load_backend = load_without_wait
    train.main()
