"""
One process of a run whose backend does not wait for its devices at the end of every other window.

Everything else is as in any other run. Keras's `fit` has no wait of its own that would replace the missing one: its
callback closes windows by the loop, which calls the backend's.
"""

from howmanygpus.measure.loop import train
from howmanygpus.measure.loop.backend import Backend, load_backend
from howmanygpus.measure.spec import RunSpec
from howmanygpus_tools.check_gpu.waits import STUDY


def load_without_wait(spec: RunSpec) -> type[Backend]:
    """Return a run's backend without every other wait. Raises ValueError for a run of a study, which needs all."""
    if spec.study != STUDY:
        raise ValueError(
            f"{spec.study}: this run belongs to a study, and without waits its rates may be wrong; start it by "
            "howmanygpus.measure.launch.launch"
        )
    backend_class = load_backend(spec)
    num_waits = 0

    def wait_for_even_windows(backend: Backend) -> None:
        """The loop waits before the first window, and then at the end of each window and before the next."""
        nonlocal num_waits
        num_waits += 1
        window = num_waits // 2
        if window % 2 == 0:
            backend_class.wait_until_idle(backend)

    changes = {"wait_until_idle": wait_for_even_windows}
    return type(f"{backend_class.__name__}WithoutWait", (backend_class,), changes)


if __name__ == "__main__":
    train.load_backend = load_without_wait
    train.main()
