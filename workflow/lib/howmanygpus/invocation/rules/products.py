"""Lists the products of the workflow, and the inputs of tables, figures and the report."""

import difflib
import json
import re
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from howmanygpus.files import sha256_of_file
from howmanygpus.invocation.rules.functions import RuleFunctions
from howmanygpus.paths import ATTEMPTS, RUNS, SCRIPTS
from howmanygpus.report.figures import list_figures
from howmanygpus.report.files import find_record
from howmanygpus.report.tables import describe_table, list_merged, list_tables
from howmanygpus.site.machine import Machine
from howmanygpus.study.invalidation.recorded import AliasedParameter
from howmanygpus.study.plan import Plan
from howmanygpus.study.published import list_files, list_published_columns
from howmanygpus.study.runs import Run
from howmanygpus.study.study import Study

OF_PROGRAM = "of_program_"
"""What stands in the name of an all-reduce before a study whose program reports its parameters."""
ANSWER, PAGES = "answer.txt", ("results/parity/parity.html", "results/all_runs.html", "results/pages")
TIMELINE = re.compile(r"results/timelines/(?P<run>.+)\.svg")


class ProductRules(RuleFunctions):
    """Paths of tables, figures and runs. Methods with wildcards use the wildcard `study`.

    builds_from_existing: returns whether this call builds from the runs that exist. makes_all: returns whether it makes
    the products of all studies. They work once the targets are known.
    """

    def __init__(
        self, plan: Plan, builds_from_existing: Callable[[], bool], makes_all: Callable[[], bool] = lambda: False
    ):
        super().__init__(plan)
        self._takes_existing, self._makes_all = builds_from_existing, makes_all
        self._preflight = plan.machine.is_cluster and plan.machine.slurm["preflight"]

    def _existing(self, paths: list[str]) -> list[str]:
        return [path for path in paths if (self.root / path).exists()] if self._takes_existing() else paths

    def _runs(self, study: str) -> list[Run]:
        """Return the runs of a study that this call can do."""
        runs = self._plan.studies[study].runs
        return [run for run in runs if not run.unsupported and not self._plan.is_left_out(run)]

    def planned_records(self, study: str) -> list[str]:
        """Return the records of a study's runs that belong to its grid, given the measurements so far."""
        asked = filter(self._plan.is_asked_for, self._runs(study))
        return [f"results/runs/{run.path}/run.json" for run in asked]

    def run_scripts(self) -> list[str]:
        """Return the batch scripts of all planned runs that have no outcome."""
        records = [Path(record) for study in self._plan.studies for record in self.planned_records(study)]
        missing = [record.parent.relative_to(RUNS) for record in records if not (self.root / record).exists()]
        return [f"{SCRIPTS}/{run}.sbatch" for run in missing]

    def all_records(self) -> list[str]:
        return [record for study in self._plan.studies for record in self.records_of_target(study)]

    def records_of_target(self, study: str) -> list[str]:
        """Return the records of a study's runs and of its searches, apart from searches that failed in this call."""
        return [*self._searches(study), *self.planned_records(study)]

    def _searches(self, study: str) -> list[str]:
        largest = self._plan.studies[study].largest
        return largest.list_records() if largest else []

    def searches(self, wildcards) -> list[str]:
        """Return the records of a study's searches that exist, and the files that say why some failed in this call."""
        largest = self._plan.studies[wildcards.study].largest
        return [*self._existing(self._searches(wildcards.study)), *(largest.list_failures() if largest else [])]

    def batch_search(self, wildcards) -> list[str]:
        """Return the table of a study's searches, if it has any."""
        has_any = self._plan.studies[wildcards.study].largest
        return [f"results/tables/{wildcards.study}/batch_search.tsv"] if has_any else []

    def allreduce_table(self, wildcards) -> list[str]:
        """Return the table of a study's all-reduces, if they are measured."""
        is_measured = self._measures_allreduce(wildcards.study)
        return [f"results/tables/{wildcards.study}/allreduce.tsv"] if is_measured else []

    def predictions(self, wildcards) -> list[str]:
        """Return the table of a study's predictions, if it asks for any."""
        has_any = self._plan.studies[wildcards.study].config["predict"]
        return [f"results/tables/{wildcards.study}/predictions.tsv"] if has_any else []

    def past_checks(self, wildcards) -> list[str]:
        """Return the checks of the predictions of other studies. A call for one study trains no other for them."""
        others = [name for name, study in self._plan.studies.items() if study.config["predict"]]
        known = [
            name
            for name in others
            if name != wildcards.study
            and not self._plan.is_undecided(name)
            and (self._makes_all() or self._is_done(name))
        ]
        return [f"results/tables/{name}/prediction_checks.tsv" for name in known]

    def _is_done(self, study: str) -> bool:
        return all((self.root / record).exists() for record in self.planned_records(study))

    def records(self, wildcards) -> list[str]:
        return self._existing(self.planned_records(wildcards.study))

    def attempts(self, wildcards) -> list[str]:
        """Return the records of attempts at the runs of a study that have no outcome yet.

        In an adaptive study, a run that failed in this call is one of them, because no pass does it again.
        """
        if not self._takes_existing() and wildcards.study not in self._plan.decisions:
            return []
        missing = [
            run for run in self._runs(wildcards.study) if not (self.root / RUNS / run.path / "run.json").exists()
        ]
        if not self._takes_existing():
            missing = [run for run in missing if not self._plan.is_asked_for(run)]
        found = [path for run in missing for path in (self.root / ATTEMPTS / run.path).glob("*/attempt.json")]
        return [str(path.relative_to(self.root)) for path in found]

    def results(self, wildcards) -> list[str]:
        """Return the records of a study's runs, and of attempts, from which tables are made."""
        return [*self.records(wildcards), *self.attempts(wildcards)]

    def jobs(self, wildcards) -> list[str]:
        """Return what jobs with devices leave behind for a study."""
        return [*self.results(wildcards), *self.verdicts_of_study(wildcards), *self.preflight(wildcards)]

    def ledger(self, wildcards) -> str:
        return f"results/records/{wildcards.study}.ledger.json"

    def sources(self, *tables: str) -> Callable:
        """Return the function of the inputs of tables of a study, apart from other tables, by the names of sources."""
        read = {source for table in tables for source in describe_table(table).sources}
        return lambda wildcards: {name: getattr(self, name)(wildcards) for name in sorted(read - {"published"})}

    def record_of_run(self, wildcards) -> str:
        """Return the record of a run, or of the last attempt at it. The wildcard is `run`. It is no input, so that
        nothing is trained for it.
        """
        if not (found := find_record(wildcards.run, self.root)):
            raise ValueError(self.explain_lack(wildcards.run))
        return str(found)

    def find_wrong_timelines(self, targets: Iterable[str]) -> list[str]:
        """Return a message for each target that is the timeline of a run that does not exist."""
        named = [match["run"] for target in targets if (match := TIMELINE.fullmatch(target))]
        return [self.explain_lack(run) for run in named if not find_record(run)]

    def explain_lack(self, run: str) -> str:
        """Return why a run has no timeline, with the remedy."""
        target, planned = f"results/timelines/{run}.svg", self._plan.runs.get(run)
        if planned and planned.unsupported:
            return f"{target}: the run has nothing to draw, because it is unsupported: {planned.unsupported}"
        lack = f"{target}: results/runs/{run}/run.json does not exist, and results/attempts/ has no attempt at it"
        if planned:
            return f"{lack}; do the run first, by the target results/runs/{run}/run.json"
        existing = {path.parent.relative_to(RUNS).as_posix() for path in RUNS.glob("*/*/*/*/run.json")}
        existing |= {
            path.parents[1].relative_to(ATTEMPTS).as_posix() for path in ATTEMPTS.glob("*/*/*/*/*/attempt.json")
        }
        if not existing:
            return f"{lack}; no run was done yet"
        nearest = difflib.get_close_matches(run, sorted(existing), n=1, cutoff=0)[0]
        return (
            f"{lack}. A run is named by its run_dir in results/tables/runs.tsv, without results/runs/; "
            f"did you mean results/timelines/{nearest}.svg?"
        )

    def hash_record_of_run(self, wildcards) -> str:
        """Return a hash that changes when the run is done again."""
        return sha256_of_file(self.root / self.record_of_run(wildcards))

    def verdicts(self, wildcards) -> list[str]:
        return self._existing(self._plan.needed_verdicts)

    def verdicts_of_study(self, wildcards) -> list[str]:
        """Return the verdicts of the parity gate on which the runs of a study depend."""
        known = self._plan.verdicts
        asked = filter(self._plan.is_asked_for, self._runs(wildcards.study))
        verdicts = {known[run.path] for run in asked if run.path in known}
        return self._existing(sorted(verdicts))

    def preflight(self, wildcards) -> list[str]:
        """Return the probes of a study's devices, and its all-reduce measurements, that this machine needs."""
        devices = dict.fromkeys(run.device for run in self._plan.studies[wildcards.study].runs)
        probes = [f"results/probe/{device}.json" for device in devices] if self._machine.is_cluster else []
        return self._existing(probes) + self.allreduces(wildcards)

    def probes(self, wildcards=None) -> list[str]:
        """Return the probes of all devices that runs use, or nothing if the machine is not a cluster."""
        if not self._machine.is_cluster:
            return []
        return self._existing([f"results/probe/{device}.json" for device in self._plan.devices])

    def preflight_allreduces(self, wildcards=None) -> list[str]:
        """Return the all-reduce measurements of the preflight of all studies."""
        studies = self._plan.studies.values() if self._preflight else []
        return list(dict.fromkeys(path for study in studies for path in self._fixed_allreduces(study)))

    def _fixed_allreduces(self, study: Study) -> list[str]:
        asked = list(filter(self._plan.is_asked_for, study.runs))
        return self._existing(list_allreduces(study.config, asked, study.predicted_at_hand))

    def allreduces(self, wildcards) -> list[str]:
        """Return the all-reduce measurements of a study: those of the preflight, and those of its own gradients."""
        study = self._plan.studies[wildcards.study]
        asked = list(filter(self._plan.is_asked_for, study.runs))
        fixed = self._fixed_allreduces(study) if self._preflight else []
        return fixed + self._existing(list_gradient_allreduces(study, asked))

    def _measures_allreduce(self, study: str) -> bool:
        return self._preflight or needs_gradients(self._plan.studies[study])

    def studies_on_device(self, wildcards, input) -> list[str]:
        """Return the names of the studies that share the bill of a probe."""
        studies = self._plan.studies.values()
        return [study.name for study in studies if any(run.device == wildcards.device for run in study.runs)]

    def studies_of_allreduce(self, wildcards, input, output) -> list[str]:
        """Return the names of the studies that share the bill of an all-reduce measurement."""
        studies = self._plan.studies.values()
        return [
            study.name
            for study in studies
            if output[0]
            in [
                *list_allreduces(study.config, study.runs, study.predicted_at_hand),
                *list_gradient_allreduces(study, study.runs),
            ]
        ]

    def published(self, wildcards) -> list[str]:
        """Return the published numbers beside which a study stands, and their sources, recorded by their contents."""
        files = list_files(self._plan.studies[wildcards.study].config["published"])
        return [AliasedParameter(path, sha256_of_file(path)) for path in files]

    def machine_file(self) -> list[str]:
        """Return the machine file of a cluster, recorded by its content."""
        machine = self._machine
        return [AliasedParameter(machine.path, sha256_of_file(machine.path))] if machine.submits else []

    def account(self, wildcards, resources) -> str:
        """Return as a value in JSON the account that the profile names for all jobs, if it names one."""
        return json.dumps({"account": resources.get("slurm_account")})

    def _is_priced(self, study: str) -> bool:
        """Say whether the machine file has a price for a device of the study."""
        billings = [self._machine.billing(run.device) for run in self._plan.studies[study].runs]
        return any(billing and billing["price_per_hour"] is not None for billing in billings)

    def list_study_products(self, study: str) -> list[str]:
        """Return the tables, the answer and the figures of one study."""
        drawn = [f"results/figures/{study}/{figure}.svg" for figure in self._list_figures(study)]
        return [*self._list_tables(study), f"results/tables/{study}/{ANSWER}", *drawn]

    def group_by_figures(self) -> dict[tuple[str, ...], list[str]]:
        """Return the studies that have the same figures, by the names of these."""
        groups: dict[tuple[str, ...], list[str]] = {}
        for study in self._plan.studies:
            groups.setdefault(tuple(self._list_figures(study)), []).append(study)
        return groups

    def _list_figures(self, study: str) -> list[str]:
        config, preflight = self._plan.studies[study].config, self._measures_allreduce(study)
        return list_figures(config, preflight, self._is_priced(study), list_published_columns(config))

    def _list_tables(self, study: str) -> list[str]:
        config, has_searches = self._plan.studies[study].config, self._plan.studies[study].largest is not None
        names = list_tables(
            config, self._measures_allreduce(study), bool(list_files(config["published"])), has_searches
        )
        return [f"results/tables/{study}/{table}.tsv" for table in names]

    def list_decided_products(self, study: str) -> list[str]:
        return [] if self._plan.is_undecided(study) else self.list_study_products(study)

    def decision(self, wildcards) -> str | list:
        """Return the file that says why runs of a study are not done; nothing for a fixed grid."""
        return f"results/decisions/{wildcards.study}.json" if wildcards.study in self._plan.decisions else []

    def list_target_products(self, target: str) -> list[str]:
        """Return the runs and the products of the studies that a target stands for."""
        studies = self._plan.targets[target]
        return [
            path for study in studies for path in (*self.records_of_target(study), *self.list_decided_products(study))
        ]

    def all(self) -> list[str]:
        """Return the products of every study, and the tables and answers over all studies.

        While something is undecided, studies have nothing but runs, and nothing is made over all studies.
        """
        if any(map(self._plan.is_undecided, self._plan.studies)):
            return [product for study in self._plan.studies for product in self.list_decided_products(study)]
        return self.available()

    def available(self) -> list[str]:
        """Return all that can be made from the runs that exist."""
        studies = [product for study in self._plan.studies for product in self.list_study_products(study)]
        return [*self._list_joined(), f"results/tables/{ANSWER}", *PAGES, *studies]

    def _list_joined(self) -> list[str]:
        """Return the tables over all studies."""
        probes = ["probes"] if self._machine.is_cluster else []
        return [f"results/tables/{table}.tsv" for table in (*list_merged(), "parity", *probes)]

    def paged_tables(self) -> list[str]:
        """Return the tables of which the report has pages. Those of `runs` are in the page of all runs."""
        own = [
            path
            for study in self._plan.studies
            for path in self._list_tables(study)
            if describe_table(Path(path).stem).in_report
        ]
        return [path for path in (*self._list_joined(), *own) if path != "results/tables/runs.tsv"]


def needs_gradients(study: Study) -> bool:
    """Say whether the all-reduce of the gradients of a study's network is measured."""
    return bool(study.config["diagnose"] or study.config["predict"])


def list_allreduces(config: dict, runs: Iterable[Run], more: Collection[tuple[str, int, int]] = ()) -> list[str]:
    """Return the all-reduce measurements of runs of a study. config: the study's. more: see Study.predicted_at_hand.

    There is one for each device and each number of devices above one, and one for each further layout.
    A study with the key `num_nodes` has one for each number of nodes on which some run can have them.
    """
    several = [run for run in runs if run.num_gpus > 1 and not (config["num_nodes"] and run.unsupported)]
    layouts = sorted({(run.device, run.num_gpus, run.num_nodes or 0) for run in several} | {*more})
    names = [f"{device}_gpus{count}{f'_nodes{nodes}' if nodes else ''}" for device, count, nodes in layouts]
    return [f"results/probe/{name}.json" for name in names]


def list_judged_allreduces(machine: Machine, study: Study, run: Run) -> list[str]:
    """Return the all-reduce measurement that refuses a run if its network is slow, with `judge_network: refuse`."""
    is_judged = machine.is_cluster and machine.slurm.get("judge_network") == "refuse"
    return list_allreduces(study.config, [run]) if is_judged else []


def list_gradient_allreduces(study: Study, runs: Iterable[Run]) -> list[str]:
    """Return the all-reduce measurements of the gradients of a study's network; see needs_gradients.

    There is one for each device and each layout above one device. The network is that of the first variant. Independent
    runs exchange nothing.
    """
    first, settings = next(iter(study.variants.items()))
    is_measured = needs_gradients(study) and not settings.get("independent")
    own = [run for run in runs if run.variant == first and not run.unsupported] if is_measured else []
    several = [run for run in own if run.num_gpus > 1]
    layouts = list_allreduces(study.config, several, study.predicted_at_hand)
    if study.is_program:
        weights = [f"{OF_PROGRAM}{study.name}"] * bool(several)
    else:
        weights = [Path(study.weights_file(run)).stem for run in several[:1]]
    return [f"{layout.removesuffix('.json')}_{name}.json" for layout in layouts for name in weights]
