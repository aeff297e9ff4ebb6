"""
Brackets of the seconds of a step on device counts beyond those that were measured.

A step is  max(compute (1 + spread growth) + exposed, input)  with
    exposed = max(0, contention reduce - overlap backward),
where `compute` is the time of one device, `reduce` that of the all-reduce of the gradients as the preflight measured
it, `backward` two thirds of `compute`, and `input` the time in which the loaders read a global batch.

What nobody measured is not guessed. Each way to complete the model is a hypothesis: how much of the exchange hides
behind the backward pass, how much slower it is beside a training, whether its latency grows as a tree or as a ring, how
much the devices differ, and whether they wait for the slowest of all or share a resource of their node. The hypotheses
that agree with all measured counts are kept. Their lowest and highest times are the bracket.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from math import ceil, log2

import numpy as np

BACKWARD_FRAC = 2 / 3
"""Part of a step in which gradients are ready to be exchanged: the backward pass has twice the multiply-adds of the
forward pass, one for the gradients of activations and one for those of weights."""
CONTENTIONS = np.geomspace(0.6, 2.5, 9)
"""Time of an all-reduce in a training over that of the same one alone."""
SHARES = np.concatenate([[0.0], np.geomspace(0.003, 2.0, 14)])
"""Exchange on two devices over the compute of a step, where no all-reduce was measured."""
OVERLAPS = np.linspace(0, 1, 6)
SPREADS = np.concatenate([[0.0], np.geomspace(0.002, 0.5, 24)])
LOADS = np.geomspace(0.75, 1.35, 13)
"""Time of a loader's worker in a training over that which its runs recorded."""
UNSEEN_DECLINE = 0.85
"""Bandwidth after a doubling of the devices over that before, if no measurement shows how it changes."""
TOLERANCE = 0.02
"""Deviation from a measured median that its repeats may not show."""
WORST_FIT = 0.1
"""Deviation from measured counts beyond which the model does not describe a curve."""


@dataclass(frozen=True)
class Place:
    """A number of devices on a number of nodes."""

    num_gpus: int
    num_nodes: int

    @property
    def on_fullest(self) -> int:
        """Number of devices on the node that has the most."""
        return ceil(self.num_gpus / self.num_nodes)


@dataclass(frozen=True)
class Point:
    """A place that was measured. images: of a step on one device; step_s: its median; error_frac: half its interval
    relative to it."""

    place: Place
    images: float
    step_s: float
    error_frac: float = 0.0


@dataclass(frozen=True)
class Evidence:
    """What is known of one curve.

    points: measured configurations of the curve. alone: seconds of a step on one device by its images, of this and
    other batches. reduces: seconds of the all-reduce by bytes of the array, by place. gradient_bytes: of the network; 0
    if they are not known. overlaps: whether devices can compute and exchange at once. loader: seconds per image of a
    worker by devices of a node; workers: of one device. Both are empty if no loader was timed.
    """

    points: Sequence[Point]
    alone: Mapping[float, float] = field(default_factory=dict)
    reduces: Mapping[Place, Mapping[float, float]] = field(default_factory=dict)
    gradient_bytes: float = 0.0
    overlaps: bool = True
    loader: Mapping[int, float] = field(default_factory=dict)
    workers: float = 0.0


@dataclass(frozen=True)
class Bracket:
    """low, middle, high: seconds of a step. bound: what limits the middle one: compute, exchange, input or devices.

    fit_frac: largest deviation of the kept hypotheses' best from a measured count.
    """

    low: float
    middle: float
    high: float
    bound: str
    fit_frac: float

    def miss(self, step_s: float) -> float:
        """Return the factor by which a measured step is outside the bracket; 1 within."""
        return max(1.0, step_s / self.high, self.low / step_s)


class NoBracket(Exception):
    """The evidence gives no bracket. The only argument is a code for words."""


def bracket_step(evidence: Evidence, place: Place, images: float) -> Bracket:
    """Return the bracket of a step at a place that was not measured.

    images: of a step on one device there. Raises NoBracket if an all-reduce that it needs was not measured, or no
    hypothesis agrees with what was measured.
    """
    base = min(evidence.points, key=lambda point: (point.place.num_gpus, point.place.num_nodes))
    others = [point for point in evidence.points if point is not base]
    places = [base.place, *(point.place for point in others), place]
    sizes = [base.images, *(point.images for point in others), images]
    middles, weights, fits = [], [], []
    for grown, (reduces, factors), computes, reads in product(
        _list_growths(places),
        _list_reduces(evidence, places, base),
        _list_computes(evidence, sizes, base),
        _list_reads(evidence, places, sizes, base),
    ):
        steps, parts = _compute_steps(base, evidence.overlaps, grown, reduces, factors, computes, reads)
        deviations = [
            np.abs(steps[number] / point.step_s - 1) - max(TOLERANCE, point.error_frac + base.error_frac)
            for number, point in enumerate(others, start=1)
        ]
        fit = np.max(deviations, axis=0) if deviations else np.zeros_like(steps[-1])
        fits.append(np.where(np.isfinite(steps[-1]), fit, np.inf).ravel())
        middles.append(steps[-1].ravel())
        weights.append(np.stack([each.ravel() for each in parts]))
    fit, step, part = np.concatenate(fits), np.concatenate(middles), np.concatenate(weights, axis=1)
    best = float(fit.min(initial=np.inf))
    if best > WORST_FIT:
        raise NoBracket("no_fit")
    kept = fit <= max(best, 0.0)
    known = step[kept]
    middle = float(np.exp(np.mean(np.log([known.min(), known.max()]))))
    nearest = part[:, kept][:, np.argmin(np.abs(np.log(known / middle)))]
    # The baseline, to which all hypotheses are fitted, is a measurement too.
    slack = (1 + max(best, 0.0)) * (1 + max(TOLERANCE, base.error_frac))
    low, high = float(known.min()) / slack, float(known.max()) * slack
    return Bracket(
        low, middle, high, ("compute", "exchange", "devices", "input")[int(np.argmax(nearest))], max(best, 0.0)
    )


def check_largest(evidence: Evidence) -> tuple[Point, Bracket] | None:
    """Predict the largest measured count from the others; None with fewer than two. Raises NoBracket as above."""
    largest = max(evidence.points, key=lambda point: (point.place.num_gpus, point.place.num_nodes))
    others = [point for point in evidence.points if point.place.num_gpus < largest.place.num_gpus]
    if not others:
        return None
    known = Evidence(**{**vars(evidence), "points": others})
    return largest, bracket_step(known, largest.place, largest.images)


def _list_growths(places: Sequence[Place]) -> list[np.ndarray]:
    """Return how the effect of differences between devices grows over places, by hypotheses; 0 on one device.

    Steps wait for the slowest of n devices, whose times scatter as a normal or as an exponential distribution, or
    devices slow each other down on a node.
    """
    counts = [place.num_gpus for place in places]
    return [
        np.array([expect_normal_maximum(count) for count in counts]),
        np.array([sum(1 / each for each in range(2, count + 1)) for count in counts]),
        np.array([place.on_fullest - 1 for place in places], float),
    ]


@cache
def expect_normal_maximum(count: int) -> float:
    """Return the expected maximum of as many values of a standard normal distribution, by its integral."""
    value, width = np.linspace(-9, 9, 4001, retstep=True)
    density = np.exp(-(value**2) / 2) / np.sqrt(2 * np.pi)
    below = np.cumsum(density) - density / 2
    return float(np.sum(value * count * np.clip(below * width, 0, 1) ** (count - 1) * density) * width)


def _list_reduces(evidence: Evidence, places: Sequence[Place], base: Point) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the seconds of the all-reduce at places, and the factors that may apply to them, by hypotheses."""
    if not evidence.reduces or not evidence.gradient_bytes:
        if places[-1].num_nodes > max(place.num_nodes for place in places[:-1]):
            raise NoBracket("no_allreduce_of_nodes")
        # Relative to the step at the baseline: messages that are sent at once, the bytes of a ring, a tree, and a ring.
        shapes = [
            np.array([form(place.num_gpus) if place.num_gpus > 1 else 0.0 for place in places])
            for form in (lambda count: 1.0, lambda count: 2 * (count - 1) / count, log2, lambda count: count - 1.0)
        ]
        return [(base.step_s * shape, SHARES) for shape in shapes]
    hypotheses = product((True, False), (True, False))
    found = [np.array([_reduce_at(evidence, place, *each) for place in places]) for each in hypotheses]
    return [(seconds, CONTENTIONS) for seconds in found]


def _reduce_at(evidence: Evidence, place: Place, is_ring: bool, declines: bool) -> float:
    """Return the seconds of the all-reduce of the gradients at a place, which may not have been measured.

    Beyond the places of the preflight, the time without bytes grows as the number of hops of a tree or of a ring, and
    the bytes that each device sends are those of a ring, 2 (n - 1) / n times the array.
    """
    if place.num_gpus == 1:
        return 0.0
    reduces, size = evidence.reduces, evidence.gradient_bytes
    if place in reduces:
        return sum(_split_reduce(reduces[place], size, is_ring))
    alike = [each for each in reduces if (each.num_nodes > 1) == (place.num_nodes > 1)]
    if not alike:
        raise NoBracket("no_allreduce_of_nodes" if place.num_nodes > 1 else "no_allreduce_of_devices")
    order = sorted(alike, key=lambda each: (each.num_nodes, each.num_gpus))
    smaller = [each for each in order if each.num_gpus <= place.num_gpus and each.num_nodes <= place.num_nodes]
    nearest = smaller[-1] if smaller else order[0]
    latency_s, transfer_s = _split_reduce(reduces[nearest], size, is_ring)
    hops = [_count_hops(each, is_ring) for each in (nearest, place)]
    sent = [(each.num_gpus - 1) / each.num_gpus for each in (nearest, place)]
    doublings = log2(place.num_gpus / nearest.num_gpus)
    change = _find_decline(evidence, order, nearest) ** -doublings if declines and doublings > 0 else 1.0
    return latency_s * hops[1] / hops[0] + transfer_s * sent[1] / sent[0] * change


def _count_hops(place: Place, is_ring: bool) -> float:
    """Return the messages that follow each other in an all-reduce, up to a factor; between nodes, those count."""
    count = place.num_nodes if place.num_nodes > 1 else place.num_gpus
    return 2.0 * (count - 1) if is_ring else 2 * log2(count)


def _find_decline(evidence: Evidence, order: list[Place], nearest: Place) -> float:
    """Return the lowest bandwidth after a doubling over that before, from the two largest places that are alike.

    It is at most 1, and lower than the ratio of the two measurements by what their errors make of it.
    """
    before = [each for each in order if each.num_gpus < nearest.num_gpus]
    if not before:
        return UNSEEN_DECLINE
    bandwidths = [
        (each.num_gpus - 1)
        / each.num_gpus
        / max(_split_reduce(evidence.reduces[each], evidence.gradient_bytes, False)[1], 1e-12)
        for each in (before[-1], nearest)
    ]
    doublings = log2(nearest.num_gpus / before[-1].num_gpus)
    ratio = (1 - 3 * TOLERANCE) * bandwidths[1] / bandwidths[0]
    return float(np.clip(ratio ** (1 / doublings), 0.3, 1.0))


def _split_reduce(seconds: Mapping[float, float], size: float, is_all_latency: bool) -> tuple[float, float]:
    """Return the time of an all-reduce of a size without bytes, and that of its bytes.

    seconds: by bytes. is_all_latency: what one size alone is taken for.
    """
    sizes = np.array(sorted(seconds))
    times = np.array([seconds[each] for each in sizes])
    whole = float(np.interp(size, sizes, times)) if size <= sizes[-1] else float(times[-1] * size / sizes[-1])
    if len(sizes) == 1:
        return (whole, 0.0) if is_all_latency else (0.0, whole)
    # Relative deviations count, because sizes span several powers of ten.
    latency_s = float(np.clip(np.polyfit(sizes, times, 1, w=1 / times)[1], 0, whole))
    return latency_s, whole - latency_s


def _list_computes(evidence: Evidence, sizes: Sequence[float], base: Point) -> list[np.ndarray]:
    """Return the compute of batches of one device over that of the baseline's batch, by hypotheses.

    Between measured batches it is on the line through them. Below, a part of the time of the smallest stays.
    """
    known = dict(evidence.alone) or {base.images: base.step_s}
    batches = np.array(sorted(known))
    times = np.array([known[each] for each in batches])
    smallest, fixed = batches[0], 0.0
    if len(batches) > 1:
        slope = (times[1] - times[0]) / (batches[1] - batches[0])
        fixed = float(np.clip((times[0] - slope * batches[0]) / times[0], 0, 1))
    needs_less = min(sizes) < smallest * (1 - 1e-9)
    hypotheses = (
        sorted({fixed, (1 + 2 * fixed) / 3, 1.0 if len(batches) == 1 else (1 + fixed) / 2}) if needs_less else [fixed]
    )

    def time(images: float, fixed: float) -> float:
        if images < smallest:
            return float(times[0] * (fixed + (1 - fixed) * images / smallest))
        if images > batches[-1]:
            return float(times[-1] * images / batches[-1])
        return float(np.interp(images, batches, times))

    return [np.array([time(images, part) for images in sizes]) / time(base.images, part) for part in hypotheses]


def _list_reads(evidence: Evidence, places: Sequence[Place], sizes: Sequence[float], base: Point) -> list[np.ndarray]:
    """Return the seconds in which the loaders of the fullest node read their part of a global batch, by hypotheses.

    The time of a worker grows on a line over the devices of a node, whose slope is known as well as its two ends are.
    """
    if not evidence.loader or not evidence.workers:
        return [np.zeros(len(places))]
    counts = np.array(sorted(evidence.loader))
    seconds = np.array([evidence.loader[each] for each in counts])
    mean = float(seconds.mean())
    if len(counts) > 1:
        slope = float(np.polyfit(counts, seconds, 1)[0])
        slopes = [slope + part * 3 * TOLERANCE * mean / float(np.ptp(counts)) for part in (-1, 0, 1)]
    else:
        # Bandwidth that declines from one device to two.
        slopes = [0.0, mean * (1 / UNSEEN_DECLINE - 1)]
    per_image = [
        np.array([max(mean + slope * (place.on_fullest - float(counts.mean())), 0.0) for place in places])
        for slope in slopes
    ]
    reads = [np.array(sizes) * each / evidence.workers for each in per_image]
    # A loader that is far from bounding takes no part, which saves most of the hypotheses.
    return reads if any((LOADS[-1] * each > base.step_s / 2).any() for each in reads) else [np.zeros(len(places))]


def _compute_steps(
    base: Point,
    overlaps: bool,
    grown: np.ndarray,
    reduces: np.ndarray,
    factors: np.ndarray,
    computes: np.ndarray,
    reads: np.ndarray,
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the seconds of a step at each place for all hypotheses on factor, overlap, spread and load.

    Beside them are the parts of the last place: compute, exchange, waiting for devices, and input if that bounds. The
    compute of the baseline is what its measured step leaves.
    """
    factor, overlap, spread, load = np.ix_(
        factors, OVERLAPS if overlaps else np.zeros(1), SPREADS, LOADS if reads.any() else np.ones(1)
    )
    hidden, exchange = overlap * BACKWARD_FRAC, factor * reduces[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        alone = np.minimum(
            base.step_s / (1 + spread * grown[0]), (base.step_s - exchange) / (1 + spread * grown[0] - hidden)
        )
    alone = np.where(alone > 0, alone, np.nan)
    steps, last = [], []
    for growth, reduce_s, scale, read_s in zip(grown, reduces, computes, reads, strict=True):
        compute = alone * scale
        exposed = np.maximum(factor * reduce_s - hidden * compute, 0)
        waited = compute * spread * growth
        needed, read = compute + exposed + waited, load * read_s
        steps.append(np.maximum(needed, read))
        last = [compute, exposed, waited, np.where(read > needed, read, 0)]
    return np.stack(np.broadcast_arrays(*steps)), list(np.broadcast_arrays(*last))
