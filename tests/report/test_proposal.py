"""A proposal shows what centres ask for, with the right words on what passes."""

import shutil
import subprocess

import pandas as pd
import pytest

from helpers.answers import make_runs
from howmanygpus.report.answer.facts import Question, decide
from howmanygpus.report.answer.predicted import describe_predicted
from howmanygpus.report.answer.texts import list_scaling, render_proposal
from howmanygpus.report.columns import IDENTITY, LINE
from howmanygpus.report.proposal import collect, draw, save
from howmanygpus.report.tables.predictions import COLUMNS as PREDICTED
from howmanygpus.report.tables.scaling import compute_scaling
from howmanygpus.report.tables.time_to_accuracy import COLUMNS as TIMES
from howmanygpus.report.tables.time_to_accuracy import compute_time_to_accuracy
from howmanygpus.report.tables.utilisation import COLUMNS as UTILISATION
from howmanygpus.report.words import escape_for_tex

RATES = {1: 100.0, 2: 190.0, 4: 340.0, 8: 400.0}
CONFIG = {"cases": 10, "epochs": 3, "warmup_steps": 5}


def make_facts(rates, more_rows=(), config=CONFIG, predictions=None, **changes):
    rows = [
        {"framework": "horovod_a", "num_gpus": count, "images_per_s": rate * scatter, "wall_time_s": 3600 / rate * 100}
        | changes
        | {"train_s": 1000 / rate, "init_s": 36.0, "compile_s": 0.0, "framework_version": "torch 2", "run_dir": "r"}
        for count, rate in rates.items()
        for scatter in (0.99, 1.0, 1.01)
    ]
    runs, evaluations = make_runs(*rows, *(rows[-1] | more for more in more_rows))
    times = compute_time_to_accuracy(runs, evaluations, {"metric": "accuracy", "thresholds": [0.9]})
    used = runs[IDENTITY].assign(utilisation_frac=0.8, memory_gib_highest=1.5)
    used = used.reindex(columns=list(UTILISATION))
    answer = decide(runs, times, Question(), utilisation=used)
    scaling = compute_scaling(runs, {"weak": [8]}, {})
    if predictions is not None:
        rows = scaling.iloc[[-1] * len(predictions)].reset_index(drop=True)[[*LINE, "curve"]]
        predictions = rows.join(pd.DataFrame(predictions)).reindex(columns=PREDICTED)
        predicted = describe_predicted(predictions, answer["decisions"], answer["asked"])
        answer |= {"details": {"predicted": predicted}}
    return collect(answer, runs, scaling, used, config, predictions)


@pytest.fixture(scope="module")
def facts():
    return make_facts(RATES)


def list_many(num_counts):
    """Return rates of many device counts, most of which have six digits or more."""
    return {2**number: 12345.6 * 2 ** (0.9 * number) for number in range(num_counts)}


def test_efficiency_and_doublings_pass_or_fail(facts):
    (curve,) = facts["curves"]
    assert (curve["mode"], curve["fixed_batch_size"]) == ("weak", 8)
    passed = [(row["num_gpus"], row["has_efficiency"], row["has_gain"]) for row in curve["rows"]]
    assert passed == [(1, None, None), (2, True, True), (4, True, True), (8, False, False)]
    assert facts["configuration"]["num_gpus"] == 4


@pytest.mark.parametrize(("factor", "nodes"), [(1.5, [1, 2, 2]), (0.5, [1, 1, 1])])
def test_devices_on_one_node_and_on_two_are_one_row_of_the_curve(factor, nodes):
    spread = {"placement": "2 nodes", "num_nodes": 2}
    more = [spread | {"num_gpus": count, "images_per_s": factor * RATES[count]} for count in (2, 4)]
    more = [row | {"train_s": 1000 / row["images_per_s"]} for row in more]
    facts = make_facts({count: RATES[count] for count in (1, 2, 4)}, more, placement="1 node", num_nodes=1)
    rows = [(row["num_gpus"], row["num_nodes"]) for curve in facts["curves"] for row in curve["rows"]]
    assert facts["configuration"]["num_nodes"] == nodes[-1] and rows == list(zip([1, 2, 4], nodes, strict=True))


def test_node_hours_are_cases_times_nodes_times_wall_time(facts):
    first = facts["curves"][0]["rows"][0]
    assert first["wall_s"]["median"] == 3600 and first["node_hours"] == 10
    assert first["startup_frac"] == pytest.approx(0.01)


def test_columns_without_values_are_left_out(facts):
    head, *rows = list_scaling(facts["curves"][0], facts)
    assert {"at 75 %", "at 1.5 x", "utilisation", "GiB"} <= set(head) and "MFU" not in head
    assert rows[3][head.index("at 75 %")] == "fail" and rows[3][head.index("efficiency")] == "50 %"


def test_every_text_has_the_table_and_the_method(facts):
    for suffix in ("md", "tex", "txt"):
        text = render_proposal(facts, suffix)
        assert all(word in text for word in ("node-hours", "fail", "pass", "smallest device count", "Data parallel"))
    assert all(len(line) <= 100 for line in render_proposal(facts, "txt").splitlines())


def test_the_proposal_of_a_program_has_what_it_counts():
    program = make_facts(RATES, input="program", unit="tokens")
    for suffix in ("md", "tex", "txt"):
        text = render_proposal(program, suffix)
        assert "tokens/s" in text and "8 tokens per device" in text and "images" not in text


def test_nothing_is_claimed_of_how_a_program_divides_its_work_or_ends_its_windows(facts):
    program = make_facts(RATES, input="program", unit="tokens")
    for suffix in ("md", "tex", "txt"):
        own = render_proposal(facts, suffix).lower()
        assert "data parallel" in own and ("devices are idle" in own) == (suffix != "txt")
        text = render_proposal(program, suffix).lower()
        assert "data parallel" not in text and "devices are idle" not in text and "to state" in text


@pytest.mark.parametrize(
    ("value", "is_copied", "is_named"),
    [
        ("ddp", True, True),
        ("zero1", True, True),
        ("fsdp2", False, True),
        ("ZeRO3", False, True),
        ("mine", False, False),
    ],
)
def test_a_program_is_described_by_its_strategy(value, is_copied, is_named):
    variants = {"variants": {"strategy_x": {"axes": {"size": 2, "strategy": value}, "work": ""}}}
    facts = make_facts(RATES, config=CONFIG | variants, input="program", unit="tokens", variant="strategy_x")
    for suffix in ("md", "tex", "txt"):
        text = " ".join(render_proposal(facts, suffix).split())
        assert ("a copy of the network" in text) == is_copied
        assert (f"strategy {value}" in text) == is_named and ("TO STATE" in text) != is_named


def test_the_memory_of_a_device_is_stated():
    facts = make_facts(RATES)
    assert facts["configuration"]["memory_gib"] == 1.5
    assert all("1.5 GiB" in " ".join(render_proposal(facts, suffix).split()) for suffix in ("md", "tex", "txt"))


PREDICTIONS = [
    {"num_gpus": count, "num_nodes": 2, "global_batch_size": 8 * count, "checked_num_gpus": 8}
    | {"images_per_s_low": 90 * low, "images_per_s": 100 * low, "images_per_s_high": 120 * low}
    | {"checked_error_frac": 0.04}
    for count, low in ((16, 6), (32, 9))
]


@pytest.mark.parametrize("suffix", ["md", "tex", "txt"])
def test_it_goes_beyond_the_measured_counts_if_asked_for(facts, suffix):
    assert "540 to 720" in render_proposal(make_facts(RATES, predictions=PREDICTIONS), suffix).replace("\n  ", " ")
    assert "redicted" not in render_proposal(facts, suffix)


def test_the_figure_has_a_band_beyond_the_measured_counts(facts):
    speed, share = draw(make_facts(RATES, predictions=PREDICTIONS)).axes[:2]
    for panel, ends in ((speed, (8.1, 10.8)), (share, (8.1 / 0.32, 10.8 / 0.32))):
        (band,) = panel.collections
        last = band.get_paths()[0].vertices
        assert sorted(set(last[last[:, 0] == 32][:, 1])) == pytest.approx(ends)
    assert not draw(facts).axes[0].collections


def test_latex_reads_no_commands_in_names(facts):
    assert escape_for_tex("50 % of a_b & {c} \\ ~^#$") == (
        r"50 \% of a\_b \& \{c\} \textbackslash{} \textasciitilde{}\textasciicircum{}\#\$"
    )
    assert r"horovod\_a" in render_proposal(facts, "tex")


@pytest.mark.parametrize("num_counts", [8, 10])
def test_many_device_counts_fit_on_a_page_of_text(num_counts):
    wide = make_facts(list_many(num_counts))
    lines = render_proposal(wide, "txt").splitlines()
    assert max(map(len, lines)) <= 100
    heads = [line for line in lines if line.startswith("devices ")]
    assert len(heads) > 1 and sum(head.count(" x cpu") for head in heads) == len(wide["curves"][0]["rows"])
    assert sum(line.startswith("node-hours ") for line in lines) == len(heads)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="LaTeX is not installed (Debian: texlive-latex-base)")
@pytest.mark.parametrize("num_counts", [4, 10])
def test_it_compiles_and_nothing_is_wider_than_the_page(num_counts, tmp_path):
    facts = make_facts(RATES if num_counts == len(RATES) else list_many(num_counts))
    save(draw(facts), tmp_path)
    (tmp_path / "proposal.tex").write_text(render_proposal(facts, "tex"))
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "proposal.tex"]
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert made.returncode == 0, made.stdout[-2000:]
    assert "Overfull" not in made.stdout


def test_a_study_without_rates_says_so():
    runs, _ = make_runs({"framework": "a", "status": "crashed"})
    times = pd.DataFrame(columns=TIMES)
    scaling = compute_scaling(runs, {"weak": [8]}, {})
    facts = collect(decide(runs, times, Question()), runs, scaling, runs[IDENTITY], CONFIG)
    assert "there is nothing to show" in render_proposal(facts, "md")
