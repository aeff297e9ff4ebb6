"""Adaptive studies are planned, refused, and decided from the records that exist."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from helpers.messages import list_texts, says
from helpers.specs import make_spec
from helpers.stored_runs import store_run, write_attempt
from howmanygpus.config.errors import ConfigError
from howmanygpus.files import write_json_atomic
from howmanygpus.invocation.deciding import (
    compute_pass_state,
    decide_all,
    describe_decision,
    limit_runs,
    refuse_overspending,
)
from howmanygpus.invocation.plans import hash_plan
from howmanygpus.invocation.run_results import read_ended, sum_device_hours
from howmanygpus.site.machine import Device, Machine
from howmanygpus.study.durations import RecordedRuns
from howmanygpus.study.plan import Plan
from howmanygpus.study.runs import Run
from project import ROOT, study

CPU = Machine("machine.yaml", {"cpu": Device(8, 1)})


def make_plan(machine=CPU, **changes) -> Plan:
    given = study(**{"frameworks": ["pytorch_ddp"], "devices": ["cpu"], "num_gpus": "auto", **changes})
    return Plan({"studies": {"small": given}}, machine)


def counts(plan: Plan, **where) -> list[int]:
    runs = [run for run in plan.runs.values() if all(getattr(run, key) == value for key, value in where.items())]
    return sorted({run.num_gpus for run in runs})


@pytest.mark.parametrize(
    ("per_node", "nodes", "expected"),
    [
        (8, 1, [1, 2, 4, 8]),
        (1, 1, [1]),
        (6, 1, [1, 2, 4, 6]),
        (4, 3, [1, 2, 4, 8, 12]),
        # 4 devices are on two nodes of 3; 8 would be on three, so that 6 take their place.
        (3, 4, [1, 2, 4, 6, 12]),
    ],
)
def test_auto_doubles_the_devices_up_to_all_of_the_machine(per_node, nodes, expected):
    machine = Machine("machine.yaml", {"cpu": Device(per_node, 1, max_nodes=nodes)})
    assert counts(make_plan(machine)) == expected


def test_auto_takes_no_count_that_a_global_batch_does_not_divide():
    machine = Machine("machine.yaml", {"cpu": Device(6, 1)})
    assert counts(make_plan(machine, scaling="strong", per_device_batch_size=[64])) == [1, 2, 4]
    assert counts(make_plan(machine, scaling="strong", per_device_batch_size=[96])) == [1, 2, 4, 6]


def test_each_device_has_the_counts_that_its_machine_has():
    machine = Machine("machine.yaml", {"cpu": Device(2, 1), "other": Device(6, 1)})
    plan = make_plan(machine, devices=["cpu", "other"])
    assert counts(plan, device="cpu") == [1, 2] and counts(plan, device="other") == [1, 2, 4, 6]


def test_auto_on_a_machine_without_the_device_is_a_shortage():
    plan = make_plan(devices=["cuda"])
    assert counts(plan) == [1] and says(plan.find_shortages()[0], "cannot be used")


def test_a_run_has_the_same_settings_in_adaptive_and_fixed_studies():
    rules = {"stop_below_efficiency": 0.5, "budget_device_h": 2.5, "train_best": 1, "probe_steps": 12}
    fixed, adaptive = make_plan(num_gpus=[1, 2, 4, 8]), make_plan(**rules)
    assert fixed.runs.keys() < adaptive.runs.keys()
    path = next(iter(fixed.runs))
    assert fixed.settings[path] == adaptive.settings[path]
    assert hash_plan(fixed, "small") == hash_plan(adaptive, "small")
    assert fixed.studies["small"].spec(fixed.runs[path]) == adaptive.studies["small"].spec(adaptive.runs[path])


def test_probes_are_the_runs_of_a_short_study_of_their_own():
    plan = make_plan(train_best=2, repeats=3, exclude=[{"num_gpus": 8}, {"num_gpus": 1, "repeat": 2}])
    probes, full = plan.studies["small_probe"], plan.studies["small"]
    assert plan.targets["small"] == ["small_probe", "small"]
    assert counts(plan, study="small_probe") == [1, 2, 4] and {run.repeat for run in probes.runs} == {1}
    assert {run.repeat for run in full.runs} == {1, 2, 3}
    run = Run("small_probe", "pytorch_ddp", "base", "arrays", "fp32", "cpu", 2, 64, 1)
    assert run in probes.runs and probes.spec(run)["steps"] == 50
    by_hand = make_plan(num_gpus=[1, 2, 4, 8], steps=50)
    twin = Run("small", *(getattr(run, key) for key in list(vars(run))[1:9]))
    assert by_hand.settings[twin.path] == plan.settings[run.path], "a fixed study of this name has the same runs"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_gpus": "all"}, 'studies.small.num_gpus: "all" does not match ^auto$; write auto, or a list'),
        (
            {"scaling": "both"},
            'studies.small.num_gpus: "auto" can be other counts for weak than for strong scaling; make one study of '
            "weak scaling and one of strong scaling, or list the counts",
        ),
        (
            {"scaling": "both", "num_gpus": [1, 2], "stop_below_efficiency": 0.5},
            "studies.small.stop_below_efficiency: 0.5 needs curves that share no runs; make one study of weak scaling",
        ),
        ({"stop_below_efficiency": 1.5}, "studies.small.stop_below_efficiency: 1.5 is too large; give at most 1"),
        ({"budget_device_h": 0}, "studies.small.budget_device_h: 0 is too small; give more than 0"),
        ({"probe_steps": 20}, "studies.small.probe_steps: 20 has no effect without train_best; add train_best or"),
        (
            {"train_best": 1, "probe_steps": 2},
            "studies.small.probe_steps: 2 leaves no step to measure after 2 warmup_steps; raise it or lower",
        ),
        (
            {"train_best": 1, "inputs": ["synthetic", "resident"]},
            "studies.small.train_best: 1 trains nothing, because random images reach no target; add a real input",
        ),
        ({"train_best": 1, "epochs": 3}, "studies.small: give exactly one of `epochs` and `steps`"),
    ],
)
def test_a_contradictory_study_is_refused(changes, message):
    with pytest.raises(ConfigError) as error:
        make_plan(**changes)
    assert str(error.value).startswith(message)


def test_probes_are_not_traced():
    plan = make_plan(train_best=1, trace=True)
    assert [plan.studies[name].config["trace"] for name in ("small_probe", "small")] == [False, True]


def test_the_name_of_the_probes_may_not_be_taken():
    studies = {"small": study(train_best=1), "small_probe": study()}
    with pytest.raises(ConfigError, match=r"studies.small.train_best: 1 makes a second study small_probe; rename"):
        Plan({"studies": studies}, CPU)


def test_a_program_stops_by_efficiency_and_budget_and_has_no_probes(monkeypatch):
    monkeypatch.chdir(ROOT)
    program = {"command": "python examples/program/train.py", "files": ["examples/program/train.py"]}
    rules = {"stop_below_efficiency": 0.5, "budget_device_h": 1.0}
    given = {"program": program, "num_gpus": "auto", "devices": ["cpu"]}
    plan = Plan({"studies": {"mine": given | rules}}, CPU)
    assert counts(plan) == [1, 2, 4, 8]
    fixed = Plan({"studies": {"mine": given | {"num_gpus": [1, 2, 4, 8]}}}, CPU)
    assert hash_plan(plan, "mine") == hash_plan(fixed, "mine")
    with pytest.raises(ConfigError, match=r"studies.mine.train_best: 1 needs short runs, and a"):
        Plan({"studies": {"mine": given | {"train_best": 1}}}, CPU)


def test_a_probe_is_not_doubted_for_being_short():
    doubts = make_plan(steps=None, epochs=9, train_best=1, optimizer={"lr_warmup_epochs": 5}).find_doubts()
    assert not doubts


def store(plan: Plan, run: str, rate: float, tmp_path: Path, **changes) -> None:
    """Store a run of a plan with a rate in images per second, and the record of its job."""
    spec = plan.studies[plan.runs[run].study].spec(plan.runs[run])
    known = make_spec()
    images = 10 * spec["global_batch_size"]
    store_run(tmp_path, run, known, window_s=(images / rate, images / rate), **changes)
    path = tmp_path / "results" / "runs" / run / "run.json"
    record = json.loads(path.read_text())
    write_json_atomic(path, record | {"spec": spec})
    job = {"kind": "run", "name": run, "device": "cpu", "num_gpus": spec["num_gpus"], "num_nodes": 1, "reason": ""}
    job |= {"status": "completed", "pid": 1, "hostname": "h", "attempt": f"results/attempts/{run}/1"}
    job |= {"started_at": "2026-01-01T00:00:00+00:00", "finished_at": "2026-01-01T01:00:00+00:00", "settled": True}
    (tmp_path / "results" / "jobs" / "run" / run).mkdir(parents=True)
    write_json_atomic(tmp_path / "results" / "jobs" / "run" / run / "1.json", job)


def path_of(num_gpus: int, study_name: str = "small") -> str:
    return Run(study_name, "pytorch_ddp", "base", "arrays", "fp32", "cpu", num_gpus, 64, 1).path


def test_decisions_follow_from_the_records_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = make_plan(stop_below_efficiency=0.5, budget_device_h=100.0)
    first = decide_all(plan)["small"]
    assert first.go == [path_of(1)]
    store(plan, path_of(1), 1000.0, tmp_path)
    store(plan, path_of(2), 800.0, tmp_path)
    plan.decisions = decided = decide_all(plan)
    reason = "efficiency 0.40 at 2 devices is below 0.5"
    assert not decided["small"].go and not decided["small"].later
    assert decided["small"].not_run == {path_of(count): f"not run: {reason}" for count in (4, 8)}
    told = describe_decision(plan, "small", decided["small"])
    assert told == {"runs": {path_of(count): ["not_run", reason] for count in (4, 8)}, "budget_device_h": 100.0}
    standing = compute_pass_state(decided)
    assert standing.asked == {path_of(1), path_of(2)} and not standing.undecided


def test_the_budget_counts_the_jobs_that_the_table_of_jobs_counts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = make_plan(budget_device_h=3.1)
    store(plan, path_of(1), 1000.0, tmp_path, wall_time_s=3600.0, images_seen=24 * 64)
    decision = decide_all(plan)["small"]
    # An hour on one device was used, and two devices take an hour for twice the images.
    assert decision.not_run[path_of(2)].endswith("1 used, this needs about 2 and a reserve of a quarter")
    generous = make_plan(budget_device_h=1000.0)
    decision = decide_all(generous)["small"]
    assert decision.go == [path_of(2)]
    assert limit_runs(generous, {"small": decision}) == {path_of(2): pytest.approx(999 / 2 * 60)}
    billing = {"cpu": {"devices_per_node": 8, "billed": "node", "price_per_hour": None, "currency": "EUR"}}
    record = json.loads((tmp_path / "results" / "jobs" / "run" / path_of(1) / "1.json").read_text())
    assert sum_device_hours({"job": record}, {}) == 1.0 and sum_device_hours({"job": record}, billing) == 8.0


def test_a_framework_begins_with_one_run_regardless_of_other_frameworks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = make_plan(budget_device_h=10.0, frameworks=["pytorch_ddp", "jax_sharding"], num_gpus=[1, 2], repeats=3)
    for repeat in (1, 2, 3):
        run = path_of(1).replace("repeat1", f"repeat{repeat}")
        store(plan, run, 1000.0, tmp_path, wall_time_s=60.0, images_seen=24 * 64)
    first = path_of(1).replace("pytorch_ddp", "jax_sharding")
    decision = decide_all(plan)["small"]
    assert decision.go == [first] and limit_runs(plan, {"small": decision})[first] == pytest.approx(7 * 60)
    # If it fails, what others took is all that is known, and the call goes on with the other runs.
    attempt = tmp_path / "results" / "attempts" / first / "20260101T000000-1" / "attempt.json"
    attempt.parent.mkdir(parents=True)
    write_json_atomic(attempt, {"status": "crashed"})
    assert len(decide_all(plan)["small"].go) > 1


def test_runs_that_would_be_done_again_must_fit_into_the_budget(tmp_path, monkeypatch):
    wildcards, record = {"run": path_of(1)}, f"results/runs/{path_of(1)}/run.json"
    job = SimpleNamespace(rule=SimpleNamespace(name="train"), wildcards_dict=wildcards, output=[record])
    monkeypatch.chdir(tmp_path)
    plan = make_plan(budget_device_h=1.5, num_gpus=[1])
    store(plan, path_of(1), 1000.0, tmp_path, wall_time_s=3600.0)
    plan.decisions = decide_all(plan)
    assert refuse_overspending(plan, []) == []
    (message,) = list_texts(refuse_overspending(plan, [job]))
    assert message.startswith("studies.small.budget_device_h: 1.5 device-hours, 1 of them used, have no room for 1 run")
    assert "--rerun-triggers mtime" in message


def test_measured_runs_are_distinguished_from_failed_and_outdated_ones(tmp_path):
    spec = make_spec()
    specs = {"done": spec.to_dict(), "other": spec.to_dict() | {"steps": 999}, "run0": spec.to_dict()}
    specs |= {"none": spec.to_dict(), "broken": spec.to_dict()}
    for name in ("done", "other", "broken"):
        store_run(tmp_path, name, spec, window_s=(2.0, 3.0))
    (tmp_path / "results" / "runs" / "broken" / "run.json").write_text("{")
    write_attempt(tmp_path, "crashed", started="20260101T000000")
    write_attempt(tmp_path, "interrupted", started="20260102T000000")
    rate = 20 * spec.global_batch_size / 5.0
    found = list(read_ended(specs, specs.get, {}, "20260101T000000", tmp_path))
    assert found == [
        ("done", "completed", rate, True),
        ("run0", "crashed", None, False),
        ("broken", "unreadable", None, True),
    ]
    assert "run0" not in [path for path, *_ in read_ended(specs, specs.get, {}, "20260101T000001", tmp_path)], (
        "an earlier call's"
    )


def read_example(name: str) -> dict:
    text = (ROOT / "config" / "README.md").read_text()
    return yaml.safe_load(re.search(rf"<!-- example: {name} -->\n```yaml\n(.*?)```", text, re.DOTALL)[1])


def test_the_example_of_the_documentation_is_planned():
    plan = make_plan(steps=200, **read_example("adaptive"))
    assert plan.studies.keys() == {"small_probe", "small"} and counts(plan) == [1, 2, 4, 8]


AUTO = {"repeats": "auto", "num_gpus": [1]}


def repeat_of(repeat: int, num_gpus: int = 1) -> str:
    return path_of(num_gpus).replace("repeat1", f"repeat{repeat}")


def test_the_example_of_repeats_is_planned_and_its_runs_are_those_of_a_number():
    plan, fixed = make_plan(num_gpus=[1], **read_example("repeats")), make_plan(num_gpus=[1], repeats=9)
    assert plan.runs.keys() == fixed.runs.keys() and plan.settings == fixed.settings
    assert plan.priorities == fixed.priorities
    assert decide_all(plan)["small"].go == [repeat_of(repeat) for repeat in (1, 2, 3)]


def test_a_number_of_repeats_needs_no_decision_and_has_the_plan_that_it_had():
    plan = make_plan(num_gpus=[1], repeats=3)
    assert decide_all(plan) == {}
    assert not {"repeats_precision", "repeats_limit"} & plan.studies["small"].describe()["config"].keys()


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"repeats_precision": 0.1}, ["studies.small.repeats_precision", "0.1", "repeats: auto"]),
        ({"repeats": 3, "repeats_limit": 5}, ["studies.small.repeats_limit", "5", "repeats: auto"]),
        ({"repeats": "often"}, ["studies.small.repeats", "often", "auto", "whole number"]),
        ({"repeats": "auto", "repeats_limit": 2}, ["studies.small.repeats_limit", "2", "at least 3"]),
        ({"repeats": "auto", "repeats_precision": 0}, ["studies.small.repeats_precision", "0", "more than 0"]),
        ({"repeats": "auto", "seed": 2**32 - 5}, ["studies.small.seed", "repeat 9", f"{2**32 - 9}"]),
    ],
)
def test_contradictory_repeats_are_refused(changes, parts):
    with pytest.raises(ConfigError) as error:
        make_plan(num_gpus=[1], **changes)
    assert says(str(error.value), *parts)


def test_curves_that_share_runs_can_be_repeated_and_each_placement_is_a_configuration():
    cluster = Machine("machine.yaml", {"cpu": Device(4, 1, max_nodes=2)})
    plan = make_plan(cluster, repeats="auto", num_gpus=[1, 4], num_nodes=[1, 2], scaling="both")
    decision = decide_all(plan)["small"]
    assert len(decision.go) == len(plan.runs) / 3 and all(plan.runs[run].repeat <= 3 for run in decision.go)


def test_a_program_can_be_repeated_until_its_rate_is_known(monkeypatch):
    monkeypatch.chdir(ROOT)
    program = {"command": "python examples/program/train.py", "files": ["examples/program/train.py"]}
    plan = Plan({"studies": {"mine": {"program": program, "devices": ["cpu"], **AUTO}}}, CPU)
    assert len(plan.runs) == 9 and len(decide_all(plan)["mine"].go) == 3


def test_repeats_follow_from_the_records_and_are_told_to_the_tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = make_plan(**AUTO, frameworks=["pytorch_ddp", "pytorch_dp"])
    for repeat, rate in enumerate((1000.0, 800.0, 1010.0), start=1):
        store(plan, repeat_of(repeat), rate, tmp_path)
        store(plan, repeat_of(repeat).replace("_ddp", "_dp"), 500.0 + repeat, tmp_path)
    plan.decisions = decided = decide_all(plan)
    assert decided["small"].go == [repeat_of(repeat) for repeat in range(4, 10)]
    told = describe_decision(plan, "small", decided["small"])
    assert told["spare"] == [repeat_of(repeat).replace("_ddp", "_dp") for repeat in range(4, 10)]
    assert told["runs"] == {}, "spare repeats are neither missing nor left out"
    ended = {repeat_of(repeat).replace("_ddp", "_dp") for repeat in (1, 2, 3)}
    assert told["repeats_ended"].keys() == ended
    assert {cause for cause, _ in told["repeats_ended"].values()} == {"precision"}
    before = compute_pass_state(decided)
    assert before.undecided == {"small"}, "the last repeats are judged by another pass"
    for repeat in range(4, 10):
        store(plan, repeat_of(repeat), 1000.0 + repeat, tmp_path)
    decision = decide_all(plan)["small"]
    assert not decision.go and not decision.later and len(decision.done) == 12
    assert before.is_followed_by(compute_pass_state({"small": decision})), "tables say why there are no more repeats"


def test_an_unsupported_configuration_has_no_more_than_the_first_repeats(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = make_plan(**AUTO | {"num_gpus": [2]}, frameworks=["pytorch_dp"])
    plan.decisions = decided = decide_all(plan)
    assert decided["small"].spare == {repeat_of(repeat, 2).replace("_ddp", "_dp") for repeat in range(4, 10)}


def test_a_long_run_is_expected_from_a_probe_by_its_images_and_its_evaluations(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = make_plan(steps=None, epochs=10, train_best=1, probe_steps=22, num_gpus=[1, 2], eval_every_epochs=2)
    clocks = {"wall_time_s": 20.0, "init_s": 3.0, "compile_s": 2.0, "eval_s": 4.0, "images_seen": 22 * 64}
    store(plan, path_of(1, "small_probe"), 1000.0, tmp_path, **clocks)
    seconds, _, is_limit = RecordedRuns(plan).expect(plan.runs[path_of(1)])
    # 1,437 images make 22 steps of 64: ten epochs have ten times the images of the probe, and five evaluations.
    assert (seconds, is_limit) == (pytest.approx(5 + 10 * 11 + 5 * 4), False)
    seconds, *_ = RecordedRuns(plan).expect(plan.runs[path_of(2)])
    assert seconds == pytest.approx(5 + (10 * 11 + 5 * 4) / 2)
