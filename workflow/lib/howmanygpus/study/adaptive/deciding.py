"""Decides what to run next, as a pure function of rules, configurations and measurements."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from howmanygpus.study.adaptive.budget import choose_within_budget
from howmanygpus.study.adaptive.configurations import (
    OUT_OF_MEMORY,
    AdaptiveRules,
    Configuration,
    Decision,
    KnownRuns,
    list_curves,
    name_devices,
)
from howmanygpus.study.adaptive.repeats import postpone_spare_repeats, select_repeats


@dataclass
class GridState:
    """The state of a grid's curves so far.

    wanted: configurations to run now, if the budget allows it. rates: the rate of each configuration that is good
    enough, by curve and device count. refused: why a configuration is not good enough or was not run, by curve and
    device count.
    """

    wanted: list[Configuration] = field(default_factory=list)
    waiting: list[Configuration] = field(default_factory=list)
    rates: dict[tuple, float] = field(default_factory=dict)
    refused: dict[tuple, str] = field(default_factory=dict)


def decide(
    rules: AdaptiveRules, measured: list[Configuration], trained: list[Configuration], known: KnownRuns
) -> Decision:
    """Decide which runs are done now, later or not at all.

    measured: configurations whose throughput is measured along their curves. trained: configurations to train if their
    throughput is among the best, with `rules.train_best`; empty otherwise. A trained configuration has the curve and
    the device count of the one that measures it. With `rules.repeats_precision`, configurations have as many repeats as
    their limit allows, apart from those that measure for others to be trained.
    """
    decision = Decision()
    repeated = select_repeats(trained or measured, rules, known, decision)
    if trained:
        _decide_configurations(rules, measured, repeated, known, decision)
    else:
        _decide_configurations(rules, repeated, [], known, decision)
    postpone_spare_repeats(trained or measured, decision)
    return decision


def _decide_configurations(
    rules: AdaptiveRules,
    measured: list[Configuration],
    trained: list[Configuration],
    known: KnownRuns,
    decision: Decision,
) -> None:
    """Decide about configurations whose repeats are all wanted."""
    scan = GridState()
    for curve in list_curves(measured):
        _follow(curve, rules, known, scan, decision)
    choose_within_budget(rules, scan.wanted, scan.waiting, known, decision)
    if not trained:
        return
    if decision.go or decision.later:
        decision.later |= {
            run: "decided later: when all probes are done" for configuration in trained for run in configuration.runs
        }
        return
    wanted = _choose_best(rules, trained, known, scan, decision)
    choose_within_budget(rules, wanted, [], known, decision)


def _follow(
    curve: list[Configuration], rules: AdaptiveRules, known: KnownRuns, scan: GridState, decision: Decision
) -> None:
    """Go up the device counts of a curve as far as the measurements allow it."""
    baseline, stopped, is_waiting = None, "", False
    for configuration in curve:
        missing = known.list_missing(configuration)
        if stopped:
            scan.refused[configuration.curve, configuration.num_gpus] = stopped
            decision.not_run |= dict.fromkeys(missing, f"not run: {stopped}")
            continue
        decision.done += known.list_done(configuration)
        if missing:
            (scan.waiting if is_waiting else scan.wanted).append(configuration)
            is_waiting = rules.is_sequential
            continue
        rate = known.compute_median_rate(configuration)
        if rate is None:
            stopped = _explain_end(configuration, rules, known) if rules.is_sequential else ""
            status = known.get_failed_status(configuration).replace("_", " ")
            scan.refused[configuration.curve, configuration.num_gpus] = f"its probe gave no rate ({status})"
            continue
        baseline = baseline or (configuration.num_gpus, rate)
        efficiency = (rate / configuration.num_gpus) / (baseline[1] / baseline[0])
        scan.rates[configuration.curve, configuration.num_gpus] = rate
        if rules.stop_below_efficiency is not None and efficiency < rules.stop_below_efficiency:
            stopped = (
                f"efficiency {_write_below(efficiency, rules.stop_below_efficiency)} at "
                f"{name_devices(configuration.num_gpus)} is below {rules.stop_below_efficiency:g}"
            )
            del scan.rates[configuration.curve, configuration.num_gpus]
            scan.refused[configuration.curve, configuration.num_gpus] = stopped


def _explain_end(configuration: Configuration, rules: AdaptiveRules, known: KnownRuns) -> str:
    """Say why a curve ends at a configuration without a rate; empty if it goes on.

    With a fixed global batch, more devices need less memory each.
    """
    status = known.get_failed_status(configuration)
    if rules.is_strong and status == OUT_OF_MEMORY:
        return ""
    return f"{name_devices(configuration.num_gpus)} gave no rate ({status.replace('_', ' ')})"


def _write_below(value: float, limit: float) -> str:
    """Write a value that is below a limit with as many digits as show it."""
    return next(text for digits in range(2, 18) if float(text := f"{value:.{digits}f}") < limit or digits == 17)


def _choose_best(
    rules: AdaptiveRules, trained: list[Configuration], known: KnownRuns, scan: GridState, decision: Decision
) -> list[Configuration]:
    """Return the best configurations that are not trained yet, and note why the others are not trained."""
    ranked = sorted(_rank(trained, scan, known, decision), key=lambda found: -found[0])
    wanted = []
    for rank, (rate, configuration) in enumerate(ranked, start=1):
        missing = known.list_missing(configuration)
        if rank <= (rules.train_best or 0):
            decision.done += known.list_done(configuration)
            wanted += [configuration] if missing else []
        else:
            reason = f"not run: rank {rank} by throughput ({rate:,.0f} images/s), and the best {rules.train_best} train"
            decision.not_run |= dict.fromkeys(missing, reason)
    return wanted


def _rank(
    trained: list[Configuration], scan: GridState, known: KnownRuns, decision: Decision
) -> Iterator[tuple[float, Configuration]]:
    """Yield the configurations that may be trained, each with its rate, and note why the others may not."""
    for configuration in trained:
        key = (configuration.curve, configuration.num_gpus)
        if configuration.is_real and key in scan.rates:
            yield scan.rates[key], configuration
            continue
        reason = (
            scan.refused.get(key, "its probe was not run") if configuration.is_real else "random images reach no target"
        )
        decision.not_run |= dict.fromkeys(known.list_missing(configuration), f"not run: {reason}")
