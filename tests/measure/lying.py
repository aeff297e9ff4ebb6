"""
One process of a run whose backend says too early that steps are complete, in every other window.

LIES names the methods that return at once there, separated by commas. The loop waits before the first window, and then
at the end of each window and before the next.
"""

import os

from howmanygpus.measure.loop import train
from howmanygpus.measure.loop.backend import load_backend

LIES = os.environ["LIES"].split(",")


def load_lying(spec):
    backend_class, num_waits = load_backend(spec), 0

    class Lying(backend_class):
        def wait_until_idle(self):
            nonlocal num_waits
            num_waits += 1
            if num_waits // 2 % 2 == 0 or "wait_until_idle" not in LIES:
                super().wait_until_idle()

        def mark_step(self):
            is_lying = num_waits // 2 % 2 == 0 and "mark_step" in LIES
            return None if is_lying else super().mark_step()

    return Lying


if __name__ == "__main__":
    train.load_backend = load_lying
    train.main()
