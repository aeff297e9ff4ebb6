"""Repeats of a constructed machine with known scatter go on until the interval of the median is narrow enough."""

import itertools
from dataclasses import dataclass, field

import pytest

from helpers.messages import says
from howmanygpus.report.intervals import median_interval
from howmanygpus.study.adaptive.configurations import AdaptiveRules, Configuration, Decision, KnownRuns, RunResult
from howmanygpus.study.adaptive.deciding import decide

LIMIT = 9
STEADY = [100.0, 101.0, 99.0, *[100.0] * 20]
ONE_SLOW = [100.0, 101.0, 80.0, *[100.0, 99.5, 100.5] * 10]
"""The range of the first three is 10.5 % of the median at each side, and one value is left out of nine."""
WIDE = [100.0, 140.0, 60.0] * 10


@dataclass
class Constructed:
    """Configurations whose repeats have known rates; a rate of None is a run that ran out of memory."""

    rates: dict[str, list[float | None]]
    counts: tuple[int, ...] = (1,)
    limit: int = LIMIT
    seconds: float = 3600.0
    runs: dict[str, RunResult] = field(default_factory=dict)
    waves: list[list[str]] = field(default_factory=list)

    @property
    def grid(self) -> list[Configuration]:
        return [
            Configuration((name,), count, tuple(f"{name}/{count}/{repeat}" for repeat in range(self.limit)), (name,))
            for name, count in itertools.product(self.rates, self.counts)
        ]

    def know(self) -> KnownRuns:
        used = sum(int(run.split("/")[1]) for run in self.runs) * self.seconds / 3600
        return KnownRuns(dict(self.runs), used, self.expect, median_interval)

    def expect(self, run: str) -> float:
        return int(run.split("/")[1]) * self.seconds / 3600

    def execute(self, run: str) -> None:
        name, count, repeat = run.split("/")
        rate = self.rates[name][int(repeat)]
        status = "out_of_memory" if rate is None else "completed"
        self.runs[run] = RunResult(status, None if rate is None else rate * int(count))

    def work(self, **rules) -> Decision:
        """Decide and execute until nothing is left to do; return the last decision."""
        for _ in range(20):
            decision = decide(AdaptiveRules(**{"repeats_precision": 0.05} | rules), self.grid, [], self.know())
            assert not set(decision.go) & decision.spare, "what is done now is not spare"
            if not decision.go:
                return decision
            assert not set(decision.go) & self.runs.keys(), "no run is done twice"
            self.waves.append(decision.go)
            for run in decision.go:
                self.execute(run)
        raise AssertionError("the passes do not end")

    def number(self, name: str, count: int = 1) -> int:
        return sum(run.startswith(f"{name}/{count}/") for run in self.runs)


def causes(decision: Decision) -> dict[str, str]:
    return {run.split("/")[0]: cause for run, (cause, _) in decision.repeats_ended.items()}


def test_repeats_go_on_until_the_interval_is_narrow_or_the_limit_is_reached():
    machine = Constructed({"steady": STEADY, "slow": ONE_SLOW, "wide": WIDE})
    decision = machine.work()
    assert [machine.number(name) for name in machine.rates] == [3, 9, 9]
    assert causes(decision) == {"steady": "precision", "slow": "precision", "wide": "limit"}
    assert says(decision.repeats_ended["steady/1/0"][1], "within 0.05", "3 repeats")
    assert says(decision.repeats_ended["slow/1/8"][1], "within 0.05", "9 repeats")
    assert says(decision.repeats_ended["wide/1/0"][1], "0.400", "9 repeats", "0.05")
    assert not decision.later and not decision.not_run
    assert decision.spare == {f"steady/1/{repeat}" for repeat in range(3, 9)}


def test_the_first_repeats_of_all_come_first_and_the_next_ones_together():
    machine = Constructed({"steady": STEADY, "slow": ONE_SLOW})
    machine.work()
    assert machine.waves == [
        [f"{name}/1/{repeat}" for name in ("steady", "slow") for repeat in range(3)],
        [f"slow/1/{repeat}" for repeat in range(3, 9)],
    ]


def test_no_repeat_is_done_that_cannot_make_the_interval_narrower():
    machine = Constructed({"wide": WIDE}, limit=8)
    decision = machine.work()
    assert machine.number("wide") == 3, "the interval of 4 to 8 values is their range"
    assert says(decision.repeats_ended["wide/1/0"][1], "no more of up to 8")
    twelve = Constructed({"wide": WIDE}, limit=13)
    twelve.work()
    assert twelve.number("wide") == 12, "the interval leaves out one value of 9 at each end, and two of 12"


def test_the_precision_itself_is_narrow_enough():
    machine = Constructed({"even": [95.0, 100.0, 105.0] * 3})
    assert causes(machine.work()) == {"even": "precision"}
    assert causes(Constructed(machine.rates).work(repeats_precision=0.0499)) == {"even": "limit"}


@pytest.mark.parametrize("failing", [[None] * 9, [100.0, None, 60.0, *[100.0] * 9]])
def test_a_configuration_without_a_rate_is_not_repeated_further(failing):
    machine = Constructed({"failing": failing})
    decision = machine.work()
    assert machine.number("failing") == 3 and causes(decision) == {"failing": "no_rate"}
    number = failing[:3].count(None)
    assert says(decision.repeats_ended["failing/1/0"][1], f"{number} of 3 repeats", "no rate", "out of memory")


def test_repeats_that_exist_count_and_missing_first_ones_are_done():
    machine = Constructed({"steady": STEADY})
    for repeat in (1, 2, 3, 4):
        machine.execute(f"steady/1/{repeat}")
    decision = machine.work()
    assert machine.waves == [["steady/1/0"]]
    assert sorted(decision.done) == [f"steady/1/{repeat}" for repeat in range(5)]
    assert decision.spare == {f"steady/1/{repeat}" for repeat in range(5, 9)}


def test_further_repeats_are_decided_later_while_there_is_something_to_do():
    machine = Constructed({"wide": WIDE}, limit=13)
    first = decide(AdaptiveRules(repeats_precision=0.05), machine.grid, [], machine.know())
    assert first.go == [f"wide/1/{repeat}" for repeat in range(3)] and not first.repeats_ended
    assert first.later.keys() == first.spare == {f"wide/1/{repeat}" for repeat in range(3, 13)}
    assert says(first.later["wide/1/3"], "later", "interval", "3 repeats")


def test_a_device_count_is_judged_by_all_its_repeats():
    rates = {"a": [100.0, 50.0, 60.0, *[100.0] * 6]}
    machine = Constructed(rates, counts=(1, 2, 4))
    decision = machine.work(stop_below_efficiency=0.5)
    assert [len(wave) for wave in machine.waves] == [3, 6, 3, 6, 3, 6], "a count waits until the one below it is sure"
    assert causes(decision) == {"a": "limit"}


def test_a_count_that_is_not_run_has_no_more_than_its_first_repeats():
    machine = Constructed({"a": STEADY}, counts=(1, 2))
    machine.runs = {f"a/1/{repeat}": RunResult("out_of_memory") for repeat in range(3)}
    decision = machine.work(stop_below_efficiency=0.5)
    assert decision.not_run.keys() == {f"a/2/{repeat}" for repeat in range(3)} and not decision.later
    assert decision.spare >= {f"a/2/{repeat}" for repeat in range(3, 9)}


def test_further_repeats_must_fit_into_the_budget():
    machine = Constructed({"steady": STEADY, "wide": WIDE})
    decision = machine.work(budget_device_h=8.0)
    assert machine.number("steady") == machine.number("wide") == 3
    assert decision.not_run.keys() == {f"wide/1/{repeat}" for repeat in range(3, 9)}
    assert says(decision.not_run["wide/1/3"], "budget of 8 device-hours", "6 used")
    assert causes(decision) == {"steady": "precision"} and not decision.later


def test_the_best_are_repeated_and_their_probes_are_not():
    machine = Constructed({"fast": ONE_SLOW, "slow": [50.0] * 9})
    probes = [Configuration(cell.curve, 1, (f"probe/{cell.curve[0]}",), cell.kind) for cell in machine.grid]
    rules = AdaptiveRules(repeats_precision=0.05, train_best=1)
    first = decide(rules, probes, machine.grid, machine.know())
    assert first.go == ["probe/fast", "probe/slow"] and len(first.later) == 18
    machine.runs = {"probe/fast": RunResult("completed", 100.0), "probe/slow": RunResult("completed", 50.0)}
    known = KnownRuns(dict(machine.runs), find_interval=median_interval)
    second = decide(rules, probes, machine.grid, known)
    assert second.go == [f"fast/1/{repeat}" for repeat in range(3)]
    assert second.not_run.keys() == {f"slow/1/{repeat}" for repeat in range(3)}
    for run in second.go:
        machine.execute(run)
    third = decide(rules, probes, machine.grid, KnownRuns(dict(machine.runs), find_interval=median_interval))
    assert third.go == [f"fast/1/{repeat}" for repeat in range(3, 9)]


def test_a_fixed_number_of_repeats_is_decided_without_intervals():
    machine = Constructed({"wide": WIDE}, limit=5)
    decision = machine.work(repeats_precision=None)
    assert machine.number("wide") == 5 and not decision.spare and not decision.repeats_ended
