"""The toy family's own loader: the shared one under another name."""

from howmanygpus.measure.input.batches import TrainingBatches


class ToyBatches(TrainingBatches):
    pass


LOADER = ToyBatches
