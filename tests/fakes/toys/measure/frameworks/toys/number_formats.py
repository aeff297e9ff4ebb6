"""Formats of numbers in the toy family, which computes nothing."""

from howmanygpus.measure.frameworks.number_formats import NumberFormats


def begin(backend, batch):
    return lambda: NumberFormats(activations={"float32"}, backward={"float32"})
