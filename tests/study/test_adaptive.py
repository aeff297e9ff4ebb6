"""An adaptive grid of a constructed machine with known truth stops where it should, within its budget."""

from dataclasses import dataclass, field, replace

import pytest

from helpers.messages import says
from howmanygpus.study.adaptive.configurations import AdaptiveRules, Configuration, Decision, KnownRuns, RunResult
from howmanygpus.study.adaptive.deciding import decide

COUNTS = (1, 2, 4, 8, 16)


@dataclass
class Constructed:
    """A machine on which a cell's rate is num_gpus * rate * efficiency, with a known efficiency for each count.

    seconds: of a run, by its device count. Runs take longer than expected by `lateness`. ends: runs that end otherwise,
    by a part of their paths. stops_at_limit: whether a run ends when it has used what it may.
    """

    efficiencies: dict[str, dict[int, float]]
    seconds: dict[int, float] = field(default_factory=lambda: dict.fromkeys(COUNTS, 3600.0))
    ends: dict[str, str] = field(default_factory=dict)
    lateness: float = 1.0
    knows_first: bool = False
    runs: dict[str, RunResult] = field(default_factory=dict)
    used_device_h: float = 0.0
    waves: list[list[str]] = field(default_factory=list)

    def grid(self, study: str = "full", repeats: int = 1, counts: tuple[int, ...] = COUNTS) -> list[Configuration]:
        return [
            Configuration(
                (name,), count, tuple(f"{study}/{name}/{count}/{repeat}" for repeat in range(repeats)), (name,)
            )
            for name in self.efficiencies
            for count in counts
        ]

    def need(self, run: str) -> float:
        study, _, count, _ = run.split("/")
        return int(count) * self.seconds[int(count)] / 3600 * (0.01 if study == "probe" else 1.0)

    def expect(self, run: str) -> float | None:
        like = [path for path in self.runs if path.split("/")[1] == run.split("/")[1]]
        return self.need(run) if like or self.knows_first else None

    def execute(self, run: str, allowed_device_h: float | None) -> None:
        _, name, count, _ = run.split("/")
        need = self.need(run) * self.lateness
        end = next((status for part, status in self.ends.items() if part in run), "completed")
        if allowed_device_h is not None and need > allowed_device_h:
            need, end = allowed_device_h, "time_limit"
        self.used_device_h += need
        rate = 100.0 * int(count) * self.efficiencies[name][int(count)]
        is_failure = end in ("crashed", "time_limit")
        self.runs[run] = RunResult(end, rate if end == "completed" else None, has_outcome=not is_failure)

    def knowledge(self) -> KnownRuns:
        return KnownRuns(dict(self.runs), self.used_device_h, self.expect)

    def work(
        self,
        rules: AdaptiveRules,
        measured: list[Configuration],
        trained: list[Configuration] = (),
        most_waves: int = 50,
    ) -> Decision:
        """Decide and execute until nothing is left to do; return the last decision."""
        for _ in range(most_waves):
            decision = decide(rules, measured, list(trained), self.knowledge())
            if not decision.go:
                return decision
            assert not set(decision.go) & self.runs.keys(), "no run is done twice"
            self.waves.append(decision.go)
            for run in decision.go:
                self.execute(run, decision.allowed_device_h.get(run))
        return decide(rules, measured, list(trained), self.knowledge())

    def counts(self, name: str, study: str = "full") -> list[int]:
        """Return the device counts at which a curve was run."""
        found = [run.split("/") for run in self.runs]
        return sorted({int(count) for of, curve, count, _ in found if (of, curve) == (study, name)})


GOOD = {count: 1.0 - 0.01 * count for count in COUNTS}
POOR = {1: 1.0, 2: 0.7, 4: 0.41, 8: 0.3, 16: 0.2}


def test_a_curve_stops_after_the_first_count_below_the_efficiency():
    machine = Constructed({"good": GOOD, "poor": POOR})
    decision = machine.work(AdaptiveRules(stop_below_efficiency=0.5), machine.grid())
    assert machine.counts("good") == list(COUNTS)
    assert machine.counts("poor") == [1, 2, 4]
    assert decision.not_run == {
        f"full/poor/{count}/0": "not run: efficiency 0.41 at 4 devices is below 0.5" for count in (8, 16)
    }
    assert not decision.later
    assert sorted(decision.done) == sorted(machine.runs)


def test_the_threshold_itself_is_not_below_it_and_a_close_value_shows_its_digits():
    machine = Constructed({"even": POOR | {4: 0.5, 8: 0.4999}})
    decision = machine.work(AdaptiveRules(stop_below_efficiency=0.5), machine.grid())
    assert machine.counts("even") == [1, 2, 4, 8]
    assert set(decision.not_run.values()) == {"not run: efficiency 0.4999 at 8 devices is below 0.5"}


def test_the_counts_of_a_wave_run_together_and_larger_ones_are_decided_later():
    machine = Constructed({"good": GOOD, "poor": POOR})
    decision = decide(AdaptiveRules(stop_below_efficiency=0.5), machine.grid(repeats=2), [], machine.knowledge())
    assert decision.go == [f"full/{name}/1/{repeat}" for name in ("good", "poor") for repeat in (0, 1)]
    assert len(decision.later) == 2 * 4 * 2
    assert says(decision.later["full/good/2/0"], "later", "rates", "2 devices")


def test_efficiency_compares_medians_with_the_smallest_measured_count():
    cells = [
        Configuration(("a",), count, tuple(f"full/a/{count}/{repeat}" for repeat in range(3))) for count in (2, 4, 8)
    ]
    rates = {2: (190.0, 200.0, 900.0), 4: (100.0, 240.0, 260.0)}
    runs = {
        f"full/a/{count}/{repeat}": RunResult("completed", rate)
        for count, found in rates.items()
        for repeat, rate in enumerate(found)
    }
    go_on = decide(AdaptiveRules(stop_below_efficiency=0.6), cells, [], KnownRuns(runs))
    assert go_on.go == [f"full/a/8/{repeat}" for repeat in range(3)], "(240 / 4) / (200 / 2) = 0.6 is not below 0.6"
    stop = decide(AdaptiveRules(stop_below_efficiency=0.61), cells, [], KnownRuns(runs))
    assert set(stop.not_run.values()) == {"not run: efficiency 0.60 at 4 devices is below 0.61"}


@pytest.mark.parametrize("status", ["crashed", "out_of_memory", "diverged"])
def test_a_count_without_a_rate_ends_its_curve_and_no_other(status):
    machine = Constructed({"good": GOOD, "other": GOOD}, ends={"good/2": status})
    decision = machine.work(AdaptiveRules(stop_below_efficiency=0.5), machine.grid())
    assert machine.counts("good") == [1, 2] and machine.counts("other") == list(COUNTS)
    assert set(decision.not_run.values()) == {f"not run: 2 devices gave no rate ({status.replace('_', ' ')})"}
    assert ("full/good/2/0" in decision.done) == (status != "crashed"), "a failed run is not made again by this call"


def test_under_strong_scaling_more_devices_may_have_the_memory_that_fewer_lack():
    machine = Constructed({"good": GOOD}, ends={"good/1/": "out_of_memory"})
    rules = AdaptiveRules(stop_below_efficiency=0.5, is_strong=True)
    assert not machine.work(rules, machine.grid()).not_run
    assert machine.counts("good") == list(COUNTS)


def test_without_rules_that_go_up_all_cells_are_measured_at_once():
    machine = Constructed({"good": GOOD, "poor": POOR})
    decision = decide(AdaptiveRules(train_best=1), machine.grid("probe"), machine.grid(), machine.knowledge())
    assert len(decision.go) == 2 * len(COUNTS)
    assert all(says(reason, "later", "probes") for reason in decision.later.values())


@pytest.mark.parametrize("lateness", [0.5, 1.0, 1.2, 3.0])
@pytest.mark.parametrize("budget", [0.01, 0.9, 1.3, 2.0, 5.0, 9.0, 31.0, 62.0, 100.0])
@pytest.mark.parametrize("knows_first", [True, False])
def test_the_budget_is_never_exceeded(budget, lateness, knows_first):
    machine = Constructed({"good": GOOD, "poor": POOR}, lateness=lateness, knows_first=knows_first)
    decision = machine.work(AdaptiveRules(budget_device_h=budget), machine.grid())
    assert machine.used_device_h <= budget * (1 + 1e-9)
    assert not decision.later
    everything = {run for configuration in machine.grid() for run in configuration.runs}
    assert machine.runs.keys() | decision.not_run.keys() == everything, "every cell is run or has its reason"
    assert not machine.runs.keys() & decision.not_run.keys()


def test_cheap_runs_are_measured_before_costly_ones_within_a_budget():
    machine = Constructed({"good": GOOD, "poor": POOR}, knows_first=True)
    decision = machine.work(AdaptiveRules(budget_device_h=8.0), machine.grid())
    assert [sorted(wave) for wave in machine.waves] == [
        ["full/good/1/0", "full/poor/1/0"],
        ["full/good/2/0", "full/poor/2/0"],
    ]
    assert machine.used_device_h == 6.0
    for count in (4, 16):
        reason = decision.not_run[f"full/good/{count}/0"]
        assert says(reason, "budget of 8 device-hours", "6 used", f"needs about {count}")


def test_a_cell_that_would_use_the_reserve_is_skipped_with_the_reason():
    machine = Constructed({"good": GOOD}, knows_first=True)
    decision = machine.work(AdaptiveRules(budget_device_h=3.2), machine.grid(counts=(1, 2)))
    assert decision.not_run == {
        "full/good/2/0": "not run: budget of 3.2 device-hours is spent: 1 used, this needs about 2 and a reserve of a "
        "quarter"
    }


def test_one_run_of_each_kind_is_measured_first_if_no_duration_is_known():
    machine = Constructed({"good": GOOD, "poor": POOR})
    decision = decide(AdaptiveRules(budget_device_h=8.0), machine.grid(repeats=2), [], machine.knowledge())
    assert decision.go == ["full/good/1/0", "full/poor/1/0"]
    assert decision.allowed_device_h == dict.fromkeys(decision.go, 4.0)
    assert says(decision.later["full/good/1/1"], "later", "how long a run takes")


def test_failed_attempts_count_against_the_budget():
    rules = AdaptiveRules(budget_device_h=8.0)
    machine = Constructed({"good": GOOD}, knows_first=True)
    machine.used_device_h = 7.0
    decision = decide(rules, machine.grid(), [], machine.knowledge())
    assert not decision.go and "7 used, this needs about 1" in decision.not_run["full/good/1/0"]


def test_runs_share_the_remaining_budget_in_proportion_to_their_needs():
    machine = Constructed({"good": GOOD, "poor": POOR}, knows_first=True)
    machine.runs["full/good/1/0"], machine.used_device_h = RunResult("completed", 100.0), 1.0
    decision = decide(AdaptiveRules(budget_device_h=7.0), machine.grid(), [], machine.knowledge())
    assert decision.allowed_device_h == {"full/poor/1/0": pytest.approx(2.0), "full/good/2/0": pytest.approx(4.0)}


def test_the_best_cells_are_trained_after_all_probes():
    machine = Constructed({"good": GOOD, "poor": POOR})
    rules = AdaptiveRules(stop_below_efficiency=0.5, train_best=3)
    decision = machine.work(rules, machine.grid("probe"), machine.grid())
    assert machine.counts("good", "probe") == list(COUNTS) and machine.counts("poor", "probe") == [1, 2, 4]
    assert machine.waves[-1] == ["full/good/16/0", "full/good/8/0", "full/good/4/0"], "best first"
    assert says(decision.not_run["full/good/2/0"], "rank 4", "196 images/s", "best 3")
    for count in (4, 16):
        assert says(decision.not_run[f"full/poor/{count}/0"], "efficiency 0.41", "4 devices", "0.5")


def test_random_images_are_measured_and_never_trained():
    machine = Constructed({"good": GOOD, "poor": POOR})
    trained = [replace(configuration, is_real=configuration.kind != ("good",)) for configuration in machine.grid()]
    decision = machine.work(AdaptiveRules(train_best=1), machine.grid("probe"), trained)
    assert machine.waves[-1] == ["full/poor/16/0"]
    assert decision.not_run["full/good/16/0"] == "not run: random images reach no target"


def test_probes_and_training_share_the_budget():
    machine = Constructed({"good": GOOD, "poor": POOR}, knows_first=True)
    decision = machine.work(AdaptiveRules(budget_device_h=9.0, train_best=3), machine.grid("probe"), machine.grid())
    assert machine.waves[-1] == ["full/good/4/0"], "16 and 8 devices need more than is left"
    assert machine.used_device_h == pytest.approx(4.62)
    assert decision.not_run["full/good/16/0"].startswith("not run: budget of 9 device-hours is spent: 4.62 used")


def test_an_interrupted_grid_ends_like_one_that_was_not():
    rules = AdaptiveRules(stop_below_efficiency=0.5, budget_device_h=40.0, train_best=2)
    whole, parts = (Constructed({"good": GOOD, "poor": POOR}, knows_first=True) for _ in range(2))
    expected = whole.work(rules, whole.grid("probe"), whole.grid())
    for _ in range(50):
        decision = decide(rules, parts.grid("probe"), parts.grid(), parts.knowledge())
        # Each call is interrupted after its first run.
        for run in decision.go[:1]:
            parts.execute(run, decision.allowed_device_h[run])
    assert parts.runs == whole.runs
    assert decision == expected
