"""
Spends a budget of device-hours.

A configuration is run only if the budget has room for a quarter more than it is expected to need. The rest of the
budget is divided among the runs of a pass in proportion to their needs, and no run gets more time than its share. The
budget is therefore kept even if every run takes longer than expected.
"""

from howmanygpus.study.adaptive.configurations import AdaptiveRules, Configuration, Decision, KnownRuns, name_devices

RESERVE = 1.25
"""Multiple of a configuration's expected need that the budget must have left."""
AFTER_FIRST_RUNS = "decided later: when the first runs tell how long a run takes"
AFTER_CHEAPER = "decided later: by what cheaper runs leave of the budget"


def choose_within_budget(
    rules: AdaptiveRules,
    wanted: list[Configuration],
    waiting: list[Configuration],
    known: KnownRuns,
    decision: Decision,
) -> None:
    """Decide which wanted configurations are run now: with a budget, those that need least.

    waiting: configurations that wait for others of their curves.
    """
    if rules.budget_device_h is None:
        decision.go += list_missing(wanted, known)
        _wait_for_others(waiting, known, decision)
        return
    left = rules.budget_device_h - known.used_device_h
    needs = {id(configuration): compute_need(configuration, known) for configuration in wanted}
    first = [configuration for configuration in wanted if needs[id(configuration)] is None]
    if first and left > 0:
        shares = dict.fromkeys(_choose_first_runs(first, known), 1.0)
        admitted, reason = [], AFTER_FIRST_RUNS
    else:
        admitted, reason = (
            _admit([configuration for configuration in wanted if configuration not in first], needs, left),
            AFTER_CHEAPER,
        )
        shares = {run: known.expect(run) or 0.0 for run in list_missing(admitted, known)}
    if not shares:
        _refuse([*wanted, *waiting], rules, known, decision)
        return
    decision.go += shares
    decision.allowed_device_h |= {run: left * share / sum(shares.values()) for run, share in shares.items()}
    rest = [run for run in list_missing(wanted, known) if run not in shares]
    decision.later |= dict.fromkeys(rest, reason)
    _wait_for_others(waiting, known, decision)


def compute_need(configuration: Configuration, known: KnownRuns) -> float | None:
    """Return the device-hours that the missing runs of a configuration are expected to need; None if not known."""
    needs = [known.expect(run) for run in known.list_missing(configuration)]
    return None if None in needs else sum(need for need in needs if need is not None)


def list_missing(cells: list[Configuration], known: KnownRuns) -> list[str]:
    return [run for configuration in cells for run in known.list_missing(configuration)]


def _admit(wanted: list[Configuration], needs: dict[int, float | None], left: float) -> list[Configuration]:
    """Return the configurations that fit into the rest of the budget together, those that need least first."""
    admitted, total = [], 0.0
    for configuration in sorted(wanted, key=lambda configuration: needs[id(configuration)] or 0.0):
        need = needs[id(configuration)] or 0.0
        if RESERVE * (total + need) <= left:
            admitted.append(configuration)
            total += need
    return admitted


def _choose_first_runs(cells: list[Configuration], known: KnownRuns) -> list[str]:
    """Return one run of each kind of configuration, on the fewest devices, to estimate the needs of the others."""
    first: dict[tuple, Configuration] = {}
    for configuration in cells:
        if configuration.kind not in first or configuration.num_gpus < first[configuration.kind].num_gpus:
            first[configuration.kind] = configuration
    return [known.list_missing(configuration)[0] for configuration in first.values()]


def _wait_for_others(waiting: list[Configuration], known: KnownRuns, decision: Decision) -> None:
    for configuration in waiting:
        reason = f"decided later: by the rates of fewer than {name_devices(configuration.num_gpus)}"
        decision.later |= dict.fromkeys(known.list_missing(configuration), reason)


def _refuse(cells: list[Configuration], rules: AdaptiveRules, known: KnownRuns, decision: Decision) -> None:
    """Note that the budget has no room for some configurations."""
    budget, used = rules.budget_device_h or 0.0, known.used_device_h
    for configuration in cells:
        need = compute_need(configuration, known)
        reason = f"not run: budget of {budget:g} device-hours is spent: {used:.3g} used"
        reason += ", and what this needs is not known" if need is None else f", this needs about {need:.2g}"
        if need is not None and used + need <= budget:
            reason += " and a reserve of a quarter"
        decision.not_run |= dict.fromkeys(known.list_missing(configuration), reason)
