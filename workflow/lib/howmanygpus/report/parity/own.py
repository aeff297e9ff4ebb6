"""
Judges what a framework did with a user's own model.

The reference is the plain strategy of the family on one device, in float32, and not a float64 computation. It lacks
the arrays that cannot be compared: all of training if the model draws random numbers there, and running statistics and
the evaluations that use them if every device normalises by its own images.
"""

from howmanygpus.report.parity.allowances import UNIT_ROUNDOFF
from howmanygpus.report.parity.judge import Comparison, count_wrong_images, select
from howmanygpus.train.models.initialization import is_trainable


class OwnComparison(Comparison):
    def run(self) -> list[dict]:
        self._check_weights()
        if self.rows[-1]["passed"]:
            self._check_numbers()
            self._check_evaluation()
            self._check_noise()
            self._check_batches()
            self._check_skipped()
            if "losses" in self.expected["sgd"]:
                self._check_losses()
                self._check_changes()
                self._check_statistics()
            self._check_evaluations()
            self._check_replicas()
        return self.rows

    @staticmethod
    def _match_format(formats: list[str], expected: str) -> bool:
        """Accept other formats too: a user's model may compute partly in float32 or in unreadable layers."""
        return not formats or expected in formats

    def _compute_simulated_noise(self) -> float:
        """Return the unit roundoff: the reference's noise comes from the same code, which may ignore the precision."""
        return UNIT_ROUNDOFF[self.specs["sgd"].precision]

    def _check_statistics(self) -> None:
        reference = select(self.expected["sgd"], f"final_{self.suffix}")
        if any(not is_trainable(name) for name in reference):
            super()._check_statistics()

    def _check_evaluations(self) -> None:
        if f"evaluations_{self.suffix}" in self.expected["sgd"]:
            super()._check_evaluations()
            return
        wrong = {name: count_wrong_images(seen) for name, seen in self.seen.items()}
        self._add("evaluated", sum(wrong.values()), 0, f"with {', '.join(name for name in wrong if wrong[name])}")
