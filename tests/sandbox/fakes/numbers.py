"""Formats of numbers of a backend without a framework, which computes nothing."""

from howmanygpus.measure.frameworks.number_formats import NumberFormats


def begin(backend, batch):
    return lambda: NumberFormats(activations={"float32"}, backward={"float32"})
