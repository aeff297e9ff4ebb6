"""The studies that are decided together: a study of the config, and the study of its probes."""

from dataclasses import dataclass
from functools import cached_property

from howmanygpus.measure.spec import RANDOM_INPUTS
from howmanygpus.study.adaptive.configurations import AdaptiveRules, Configuration, Decision, KnownRuns
from howmanygpus.study.adaptive.deciding import decide
from howmanygpus.study.adaptive.keys import AUTO, is_adaptive
from howmanygpus.study.adaptive.repeats import MIN_REPEATS
from howmanygpus.study.plan import Plan
from howmanygpus.study.runs import Run
from howmanygpus.study.study import Study


@dataclass(frozen=True)
class Campaign:
    """An adaptive study. probes: the study of its probes, if it trains only its best configurations."""

    plan: Plan
    study: Study
    probes: Study | None

    @cached_property
    def rules(self) -> AdaptiveRules:
        config = self.study.config
        keys = ("stop_below_efficiency", "budget_device_h", "train_best")
        precision = config["repeats_precision"] if config["repeats"] == AUTO else None
        is_strong = config["scaling"] == "strong"
        return AdaptiveRules(**{key: config[key] for key in keys}, repeats_precision=precision, is_strong=is_strong)

    @property
    def studies(self) -> list[Study]:
        """The studies in the order in which they are run."""
        return [self.probes, self.study] if self.probes else [self.study]

    @property
    def runs(self) -> list[Run]:
        """The runs that a decision can be about: all that are possible, and possible in this call."""
        return [run for study in self.studies for run in study.runs if self._can_be_done(run)]

    def _can_be_done(self, run: Run) -> bool:
        return not run.unsupported and not self.plan.is_left_out(run)

    def decide(self, known: KnownRuns) -> Decision:
        if self.probes is None:
            decision = decide(self.rules, self._make_cells(self.study), [], known)
        else:
            decision = decide(self.rules, self._make_cells(self.probes), self._make_cells(self.study), known)
        if self.rules.repeats_precision is not None:
            impossible = (run for run in self.study.runs if not self._can_be_done(run))
            decision.spare |= {run.path for run in impossible if run.repeat > MIN_REPEATS}
        return decision

    def _make_cells(self, study: Study) -> list[Configuration]:
        repeats: dict[tuple, list[Run]] = {}
        for run in filter(self._can_be_done, study.runs):
            size = study.global_batch_size(run) if self.rules.is_strong else run.per_device_batch_size
            curve = (run.framework, run.variant, run.input, run.precision, run.device, size)
            repeats.setdefault((curve, run.num_gpus, run.num_nodes), []).append(run)
        return [
            Configuration(
                curve,
                num_gpus,
                tuple(run.path for run in runs),
                kind=(runs[0].framework, runs[0].device),
                is_real=runs[0].input not in RANDOM_INPUTS,
            )
            for (curve, num_gpus, _), runs in repeats.items()
        ]


def list_campaigns(plan: Plan) -> list[Campaign]:
    """Return the adaptive studies of a plan."""
    adaptive = [study for study in plan.studies.values() if is_adaptive(study.config)]
    return [Campaign(plan, study, plan.studies.get(plan.probes.get(study.name, ""))) for study in adaptive]
