"""Variants of a program that do the same work are one comparison, and those that do not are refused with the step."""

import json
import os
import subprocess
from itertools import pairwise

import pandas as pd
import pytest

from helpers.answers import make_runs
from helpers.specs import make_spec
from helpers.stored_runs import FIXED
from howmanygpus.report.answer.facts import Question, decide
from howmanygpus.report.answer.texts import render_screen
from howmanygpus.report.columns import IDENTITY
from howmanygpus.report.tables.losses import COLUMNS
from howmanygpus.report.tables.time_to_accuracy import compute_time_to_accuracy
from howmanygpus.report.trajectory import add_differences
from howmanygpus.study.program.study import describe_variants
from howmanygpus.study.runs import HOW
from project import ROOT

RATES = {"ddp": 100.0, "zero1": 95.0, "fsdp2": 80.0}
USUAL = [3.5123456, 3.2123456, 3.1123456, 2.9123456, 2.5123456]
STEPS = (1, 2, 5, 10, 20)
NUM_ORDERS, NUM_STEPS = 100, 60


def make_variants(losses, steps=STEPS, printed=None, qualities=None, axes=None, thresholds=(0.9,), **changes):
    """Return the tables of runs and losses, and the question, of a study whose axis `strategy` is of one work.

    losses: those at `steps` by strategy and number of devices. printed: decimal places of losses. qualities: by
    strategy. axes: values of the other axes of a variant, by its name, if the names are not those of strategies.
    """
    axes = axes or {strategy: {"strategy": strategy} for strategy, _ in losses}
    variants = describe_variants(axes, ["strategy"])
    planned, rows, lines = {}, [], []
    for (variant, num_gpus), known in losses.items():
        names = {"framework": "gpt", "model": "gpt", "dataset": "own_data", "unit": "tokens", "num_gpus": num_gpus}
        names |= {"input": "program", "variant": variant} | changes
        rate = RATES.get(axes[variant]["strategy"], 90.0)
        quality = (qualities or {}).get(variant, 0.95)
        rows.append(names | {"images_per_s": rate * num_gpus, "train_s": 100 / rate / num_gpus, "loss_last": known[-1]})
        rows[-1] |= {"quality": quality, "run_dir": "r"}
        given = {key: value for key, value in names.items() if key != "unit"}
        spec = make_spec(global_batch_size=8 * num_gpus, **given).to_dict()
        planned[f"run{len(planned)}"] = {"spec": spec | {"program": {"axes": axes[variant]}}, "unsupported": ""}
        for step, loss in zip(steps, known, strict=True):
            lines.append({"last_step": step, "loss": loss if printed is None else round(loss, printed)})
    runs, evaluations = make_runs(*rows)
    repeated = runs.loc[runs.index.repeat(len(steps)), IDENTITY].reset_index(drop=True)
    table = repeated.join(pd.DataFrame(lines)).reindex(columns=list(COLUMNS)).drop(columns=list(COLUMNS[-2:]))
    config = FIXED["config"] | {"variants": variants, "program": {"unit": "tokens"}}
    plan = {"config": config, "how": (*HOW, "program.axes.strategy"), "runs": planned}
    table = add_differences(table, plan, set(runs[IDENTITY].itertuples(index=False, name=None)))
    times = compute_time_to_accuracy(runs, evaluations, {"metric": "accuracy", "thresholds": list(thresholds)})
    return runs, times, table, Question(works={name: each["work"] for name, each in variants.items()})


def answer(losses, **options):
    runs, times, table, question = make_variants(losses, **options)
    return json.loads(json.dumps(decide(runs, times, question, losses=table), allow_nan=False))


def on_counts(**losses):
    """Return the same losses on one device and on two, by strategy and number of devices."""
    return {(strategy, count): known for strategy, known in losses.items() for count in (1, 2)}


def scale(losses, *factors):
    return [loss * (1 + factor) for loss, factor in zip(losses, factors, strict=True)]


def test_strategies_of_one_work_are_one_decision_that_names_what_the_others_lose():
    near = scale(USUAL, 0, 1e-7, 1e-7, 2e-7, 3e-7)
    facts = answer(on_counts(ddp=USUAL, zero1=near, fsdp2=USUAL))
    (decision,) = facts["decisions"]
    assert (decision["of"], decision["recommended"]["variant"], decision["refusal"]) == ("", "ddp", None)
    others = {one["variant"]: one for one in decision["alternatives"]}
    assert set(others) == {"zero1", "fsdp2"} and others["fsdp2"]["times_faster"]["median"] == pytest.approx(0.8)
    assert others["fsdp2"]["loss"]["median"] == USUAL[-1] and others["zero1"]["quality"]["median"] == 0.95
    assert all(strategy in render_screen(facts) for strategy in RATES)


@pytest.mark.parametrize("wrong", [0, 1e-2], ids=["recommended", "refused"])
def test_facts_of_a_threshold_that_is_a_whole_number_are_those_of_json(wrong):
    """Pandas makes integers of such thresholds that are none of JSON's. `answer` writes the facts as JSON."""
    losses = on_counts(ddp=USUAL, fsdp2=scale(USUAL, *[wrong] * len(STEPS)))
    (decision,) = answer(losses, thresholds=[0, 2])["decisions"]
    assert decision["goal"]["threshold"] == 0 and decision["goal"]["unreached"] == [2]
    assert bool(decision["recommended"]) == (not wrong)


def test_without_losses_at_equal_steps_nothing_is_recommended():
    runs, times, table, question = make_variants(on_counts(ddp=USUAL, fsdp2=USUAL))
    few = table[~(table["variant"].eq("fsdp2") & table["num_gpus"].eq(2))]
    few.loc[few["num_gpus"].eq(2), "difference"] = None
    for losses in (None, table.iloc[:0], few):
        (decision,) = decide(runs, times, question, losses=losses)["decisions"]
        assert decision["recommended"] is None and "fsdp2" in decision["refusal"]


@pytest.mark.parametrize("strategies", [("ddp", "fsdp2"), ("ddp", "zero1", "fsdp2")])
def test_a_jump_at_one_step_is_refused_with_the_step_and_the_losses(strategies):
    losses = on_counts(**dict.fromkeys(strategies, USUAL))
    losses["fsdp2", 2] = scale(USUAL, 0, 0, 4e-3, 4e-3, 4e-3)
    (decision,) = answer(losses)["decisions"]
    assert decision["recommended"] is None
    assert all(part in decision["refusal"] for part in ("2 devices", "step 5", "ddp", "fsdp2", "3.112346", "3.124795"))


def test_a_small_difference_of_one_strategy_on_every_device_count_is_refused():
    wrong = scale(USUAL, 0, 0, 0, 0, 1e-4)
    (decision,) = answer(on_counts(ddp=USUAL, zero1=wrong, fsdp2=USUAL))["decisions"]
    assert "step 20" in decision["refusal"] and "zero1" in decision["refusal"]
    # Rounding may make a single run jump.
    losses = on_counts(ddp=USUAL, zero1=USUAL, fsdp2=USUAL) | {("zero1", 2): wrong}
    assert answer(losses)["decisions"][0]["recommended"]


def test_losses_that_are_printed_with_few_digits_may_be_rounded_to_either_side():
    between = [3.5125, 3.2125, 3.1125, 2.9125, 2.5125]
    sides = [scale(between, *[factor] * len(STEPS)) for factor in (-1e-7, 1e-7, 1e-7)]
    losses = on_counts(**dict(zip(RATES, sides, strict=True)))
    assert answer(losses, printed=3)["decisions"][0]["recommended"]
    apart = on_counts(ddp=USUAL, zero1=USUAL, fsdp2=scale(USUAL, *[3e-4] * len(STEPS)))
    assert "step 1 " in answer(apart)["decisions"][0]["refusal"]


def test_another_quality_is_refused_with_the_numbers():
    losses = on_counts(ddp=USUAL, fsdp2=USUAL)
    (decision,) = answer(losses, qualities={"ddp": 0.95, "fsdp2": 0.92})["decisions"]
    assert all(part in decision["refusal"] for part in ("0.95", "0.92", "fsdp2"))


def test_the_other_axes_stay_studies_of_their_own():
    axes = {f"{size}_{name}": {"size": size, "strategy": name} for size in ("small", "large") for name in RATES}
    losses = {(variant, 1): USUAL if "small" in variant else USUAL[::-1] for variant in axes}
    decisions = answer(losses, axes=axes)["decisions"]
    assert [each["of"] for each in decisions] == ["size_small", "size_large"]
    assert [each["recommended"]["variant"] for each in decisions] == ["small_ddp", "large_ddp"]


@pytest.fixture(scope="module")
def trained(environment_python, kept):
    """Return the losses of a GPT by number of devices, and by order of summation or fault."""
    program = ROOT / "tests" / "helpers" / "train_variants.py"

    def make(folder):
        command = [environment_python("pytorch-cpu"), program, str(NUM_ORDERS // 2), str(NUM_STEPS)]
        environment = os.environ | {"PYTHONPATH": str(ROOT / "examples" / "program")}
        result = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr[-3000:]
        (folder / "losses.json").write_text(result.stdout)

    folder = kept("variants-of-a-gpt", "pytorch-cpu", make, f"{program.read_text()} {NUM_ORDERS} {NUM_STEPS}")
    return {int(count): each for count, each in json.loads((folder / "losses.json").read_text()).items()}


def choose(trained, *choices):
    """Return the losses and axes of a study of choices, which have the names of two or three strategies' losses each.

    Both are arguments of make_variants.
    """
    axes, losses = {}, {}
    for number, names in enumerate(choices):
        for strategy, name in zip(RATES, names, strict=False):
            variant = f"choice{number}_{strategy}"
            axes[variant] = {"choice": number, "strategy": strategy}
            losses |= {(variant, count): trained[count][name] for count in trained}
    return {"losses": losses, "axes": axes, "steps": range(1, NUM_STEPS + 1)}


def test_no_order_of_summation_is_accused(trained):
    orders = [str(order) for order in range(1, NUM_ORDERS // 2 + 1)]
    pairs, equal = ([(*first, order) for order in orders] for first in (("0",), ("0", "0")))
    for choices in (pairs, equal, [("0", one, other) for one, other in pairwise(orders)]):
        table = make_variants(**choose(trained, *choices))[2]
        assert table["difference"].notna().all(), "each of these is compared on two device counts"
        assert not (table["difference"] > table["difference_limit"]).any()
    assert all(each["recommended"] for each in answer(**choose(trained, pairs[0], equal[0]))["decisions"])


@pytest.mark.parametrize("fault", ["moments", "average", "batch"])
@pytest.mark.parametrize("other", ["0", "1"], ids=["equal bits", "another order"])
def test_a_fault_of_one_strategy_is_named_by_the_step_at_which_losses_part(trained, fault, other):
    (decision,) = answer(**choose(trained, ("0", fault, other)))["decisions"]
    assert decision["recommended"] is None and "zero1" in decision["refusal"]
    latest = NUM_STEPS if fault == "moments" else 3
    assert any(f"step {step} " in decision["refusal"] for step in range(2, latest + 1)), decision["refusal"]
    assert fault == "moments" or "2 devices" in decision["refusal"]


@pytest.mark.parametrize("fault", ["average", "batch"])
def test_a_gross_fault_is_also_found_in_a_pair(trained, fault):
    (decision,) = answer(**choose(trained, ("0", fault)))["decisions"]
    assert "step 3 " in decision["refusal"]
