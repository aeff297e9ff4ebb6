"""Devices that are slower than their siblings are named, and runs on them flagged, in tables and the answer."""

import pandas as pd
import pytest

from helpers.answers import find_doubt, make_facts
from helpers.messages import says
from helpers.records import HOST, make_run
from helpers.specs import make_spec
from helpers.stored_runs import collect, plan_of, store_run
from howmanygpus.report.files import read_table, write_table
from howmanygpus.report.rows import merge_tables
from howmanygpus.report.tables import health
from howmanygpus.report.tables.helpers.device_health import compare_devices, judge_run, list_devices

DAY = "2026-11-27"


def make_node(hostname, *products, copies=(), day=DAY, model="NVIDIA A100", devices=None, **changes):
    """Return the rates of a node with one GPU for each rate of the product, in TFLOP/s."""
    names = devices or [f"GPU-{hostname}-{number}" for number in range(len(products))]
    entries = [
        {"device": name, "model": model, "measured_at": f"{day}T08:00:00+00:00", "product_tflop_per_s": product}
        | {"copy_gib_per_s": copies[number] if copies else 1200.0}
        for number, (name, product) in enumerate(zip(names, products, strict=True))
    ]
    node = {"hostname": hostname, "kind": "cuda", "cores_per_device": 8, "program": "torch 2", "devices": entries}
    return node | changes


def compare(*nodes):
    records = [make_run(make_spec(), reference_kernel={"nodes": [node]}) for node in nodes]
    return {each.device.facts["device"]: each for each in compare_devices(list_devices(records))}


def find_named(*nodes):
    return {name: " ".join(map(str, each.findings)) for name, each in compare(*nodes).items() if each.findings}


def test_one_slow_card_of_four_is_named_with_its_value_and_a_remedy():
    (named,) = find_named(make_node("n1", 270.0, 231.0, 272.0, 271.0)).items()
    assert named[0] == "GPU-n1-1"
    assert says(named[1], "n1, GPU-n1-1 (NVIDIA A100)", "matrix product", "85 %", "3 equal devices of its node", DAY)
    assert says(named[1], "CUDA_VISIBLE_DEVICES", "--exclude")


def test_a_slow_memory_is_named_by_its_copy():
    (named,) = find_named(make_node("n1", *[270.0] * 4, copies=[1200.0, 1210.0, 600.0, 1190.0])).items()
    assert named[0] == "GPU-n1-2" and says(named[1], "copy of memory", "50 %", "600 GiB/s")


def test_two_slow_cards_of_four_are_both_named():
    assert find_named(make_node("n1", 270.0, 200.0, 201.0, 271.0)).keys() == {"GPU-n1-1", "GPU-n1-2"}


@pytest.mark.parametrize("products", [[270.0] * 4, [270.0, 252.0, 275.0, 262.0]], ids=["equal", "usual spread"])
def test_cards_of_the_usual_spread_are_not_named(products):
    assert find_named(make_node("n1", *products)) == {}


def test_one_card_alone_is_compared_with_nothing():
    (only,) = compare(make_node("n1", 10.0)).values()
    assert (only.fractions, only.compared_with, only.findings) == ({}, "", ())


def test_a_card_alone_is_compared_with_those_of_other_nodes():
    (named,) = find_named(make_node("n1", 270.0), make_node("n2", 200.0), make_node("n3", 268.0)).items()
    assert named[0] == "GPU-n2-0" and says(named[1], "74 %", "2 equal devices of other nodes")


def test_a_node_whose_cards_are_all_slow_is_named_by_the_other_nodes():
    named = find_named(make_node("n1", 270.0, 270.0), make_node("n2", 200.0, 200.0))
    assert named.keys() == {"GPU-n2-0", "GPU-n2-1"} and "of its node" not in named["GPU-n2-0"]


def test_days_of_a_node_are_compared_apart():
    """A card that was slow yesterday, when all of them were, is not slow beside today's."""
    yesterday = make_node("n1", 200.0, 200.0, day="2026-11-26")
    assert find_named(yesterday, make_node("n1", 270.0, 270.0)) == {}


@pytest.mark.parametrize(
    "changes",
    [{"model": "NVIDIA H100"}, {"program": "torch 3"}, {"kind": "cpu"}],
    ids=["model", "version", "kind"],
)
def test_only_equal_devices_are_compared(changes):
    both = compare(make_node("n1", 270.0), make_node("n2", 100.0, **changes))
    assert all(not each.compared_with and not each.findings for each in both.values())


def test_the_remedy_for_slow_cores_is_none_for_gpus():
    (named,) = find_named(make_node("n1", 0.1, 0.05, kind="cpu", devices=["cores 0", "cores 1"])).values()
    assert says(named, "cores 1", "other programs", "--exclude") and "CUDA" not in named


def test_a_cpu_device_whose_cores_others_had_is_not_judged():
    """Nor is it a measure for its siblings."""
    node = make_node("n1", 0.1, 0.05, 0.1, kind="cpu", devices=["cores 0", "cores 1", "cores 2"])
    for device, kept in zip(node["devices"], (1.0, 0.5, 1.0), strict=True):
        device["cores_frac"] = kept
    compared = compare(node)
    assert compared["cores 0"].compared_with == "1 equal device of its node" and not compared["cores 1"].compared_with
    assert not any(each.findings for each in compared.values())


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"throttle_reasons": "hw_slowdown hw_thermal_slowdown"}, ("during the reference", "hw_thermal_slowdown")),
        (
            {"throttle_reasons": "applications_clocks_setting", "sm_clock_mhz": 1000, "sm_clock_max_mhz": 1410},
            ("set to 1,000 MHz", "1,410 MHz", "-rgc"),
        ),
        ({"problem": "OutOfMemoryError: full"}, ("failed", "OutOfMemoryError: full", "nvidia-smi")),
    ],
    ids=["hot", "clocks set", "failed"],
)
def test_what_a_gpu_says_under_load_is_a_finding_without_any_sibling(facts, words):
    node = make_node("n1", 270.0)
    node["devices"][0] |= facts
    (text,) = find_named(node).values()
    assert says(text, "n1, GPU-n1-0", *words)


def test_a_power_cap_under_load_is_usual():
    node = make_node("n1", 270.0)
    node["devices"][0] |= {"throttle_reasons": "sw_power_cap", "sm_clock_mhz": 1200, "sm_clock_max_mhz": 1410}
    assert find_named(node) == {}


STATE = {"host": {"hostname": "n1", "load_1min": 0, "num_cores": 8, "other_cpu_frac": 0.0}, "gpus": [], "missing": {}}
NODE = make_node("n1", 270.0, 200.0, 272.0)


def on_gpu(number, **changes):
    """Return what differs in the record of a run on one GPU of the node n1."""
    host = HOST | {"hostname": "n1", "gpu_uuids": [f"GPU-n1-{number}"]}
    return {"host": host, "health": STATE, "reference_kernel": {"nodes": [NODE]}} | changes


@pytest.fixture
def plan(tmp_path):
    """A plan of runs on a healthy GPU, on the slow one, on a busy host, and of one that failed on the slow GPU."""
    specs = [make_spec(device="cuda", device_kind="cuda", repeat=repeat) for repeat in (1, 2, 3, 4)]
    busy = STATE | {"host": STATE["host"] | {"other_cpu_frac": 0.5}}
    store_run(tmp_path, "run0", specs[0], **on_gpu(0))
    store_run(tmp_path, "run1", specs[1], **on_gpu(1))
    store_run(tmp_path, "run2", specs[2], **on_gpu(2, health=busy))
    store_run(tmp_path, "run3", specs[3], status="diverged", reason="training loss is nan", **on_gpu(1))
    return plan_of(*specs)


def test_runs_on_a_slow_device_are_flagged_and_keep_their_rates(plan, tmp_path):
    runs, _ = collect(plan, tmp_path)
    assert runs["health"].isna().tolist() == [True, False, False, False]
    assert says(runs["health"][1], "GPU-n1-1", "74 %") and says(runs["health"][2], "n1: other programs", "50 %")
    assert runs["images_per_s"].notna().tolist() == [True, True, True, False]


def test_the_table_has_each_device_once_and_each_run_with_a_finding(plan, tmp_path):
    table = health.tabulate(plan, tmp_path)
    devices, runs = (table[table["about"] == kind] for kind in ("device", "run"))
    assert devices["product_frac"].round(3).tolist() == [1.144, 0.738, 1.157]
    assert devices["compared_with"].unique().tolist() == ["2 equal devices of its node"]
    assert devices["finding"].notna().tolist() == [False, True, False]
    assert runs["record"].tolist() == [f"results/runs/run{number}" for number in (1, 2, 3)]


def test_a_device_that_several_studies_share_has_one_row_over_all_studies(plan, tmp_path):
    table = health.tabulate(plan, tmp_path)
    write_table(tmp_path / "a.tsv", table)
    write_table(tmp_path / "b.tsv", table[table["about"] == "device"])
    merge_tables([tmp_path / "a.tsv", tmp_path / "b.tsv"], tmp_path / "both.tsv")
    assert len(read_table(tmp_path / "both.tsv")) == len(table) == 6


def test_a_kernel_that_was_not_measured_is_said_and_flags_no_run(tmp_path):
    spec = make_spec()
    store_run(tmp_path, "run0", spec, reference_kernel={"nodes": [], "problem": "exit status 1: no numpy"})
    table, (runs, _) = health.tabulate(plan_of(spec), tmp_path), collect(plan_of(spec), tmp_path)
    assert says(table["finding"][0], "not measured", "no numpy") and runs["health"].isna().all()


def test_runs_of_earlier_versions_have_no_rows(tmp_path):
    store_run(tmp_path, "run0", make_spec())
    assert health.tabulate(plan_of(make_spec()), tmp_path).empty


def test_every_node_of_a_run_on_a_cluster_counts(tmp_path):
    nodes = [make_node("n1", 270.0, 271.0), make_node("n2", 270.0, 200.0)]
    of_process = {"node": 0, "local_rank": 0, "pid": 1, "address": "a:1", "visible_devices": None, "step": None}
    processes = [
        of_process
        | {"rank": rank, "hostname": name, "gpu_uuids": [f"GPU-{name}-{n}" for n in range(2)], "health": state}
        for rank, (name, state) in enumerate(
            [("n1", STATE), ("n2", STATE | {"host": STATE["host"] | {"hostname": "n2", "other_cpu_frac": 0.4}})]
        )
    ]
    spec = make_spec(device="cuda", device_kind="cuda", num_gpus=4, num_nodes=2)
    store_run(tmp_path, "run0", spec, processes=processes, reference_kernel={"nodes": nodes})
    runs, _ = collect(plan_of(spec), tmp_path)
    assert says(runs["health"][0], "n2: other programs had 40 %", "n2, GPU-n2-1") and "GPU-n1" not in runs["health"][0]


def test_the_answer_doubts_runs_on_devices_that_are_not_in_order():
    sentence = "n1, GPU-1 (NVIDIA A100): its memory is hot; let it cool down."
    facts = make_facts(
        {"framework": "a", "health": sentence}, {"framework": "b", "health": sentence}, {"framework": "c"}
    )
    assert says(find_doubt(facts, "health"), "2 runs", "were not in order", sentence)
    (doubt,) = [each for each in facts["decisions"][0]["doubts"] if each["kind"] == "health"]
    assert doubt["run_next"] == [".venv/bin/python workflow/scripts/retry_runs.py --unhealthy --study s"]
    assert facts["details"]["health"] == {sentence: 2}
    assert not find_doubt(make_facts({"framework": "a"}), "health")


def test_a_known_card_has_its_rates_as_shares_of_its_peaks(tmp_path):
    node = make_node("n1", 218.4, model="NVIDIA A100-SXM4-80GB", copies=[2039e9 * 0.9 / 2**30])
    spec = make_spec()
    store_run(tmp_path, "run0", spec, reference_kernel={"nodes": [node]})
    row = health.tabulate(plan_of(spec), tmp_path).iloc[0]
    assert (row["product_peak_frac"], row["copy_peak_frac"]) == (pytest.approx(0.7), pytest.approx(0.9))


def make_rates(model, product_tflop_per_s, copy_frac, memory_gb_per_s):
    """Return the rates of a node with two equal cards, which copy at a share of the peak of their memory."""
    copy = copy_frac * memory_gb_per_s * 1e9 / 2**30
    return make_node("n1", *[product_tflop_per_s] * 2, copies=[copy] * 2, model=model)


@pytest.mark.parametrize(
    ("model", "product", "memory_gb_per_s"),
    [
        ("NVIDIA A100-SXM4-80GB", 267.9, 2039.0),
        ("NVIDIA A100 80GB PCIe", 256.4, 1935.0),
        ("NVIDIA H100 80GB HBM3", 792.1, 3350.0),
        ("NVIDIA GH200 480GB", 821.0, 4000.0),
        ("NVIDIA B200", 1745.0, 7700.0),
        ("Tesla T4", 24.0, 320.0),
    ],
)
def test_cards_at_published_rates_are_in_order(model, product, memory_gb_per_s):
    assert find_named(make_rates(model, product, 0.9, memory_gb_per_s)) == {}


@pytest.mark.parametrize(
    ("product", "copy_frac", "words"),
    [
        (150.0, 0.9, ("matrix product", "48 %", "peak", "150 TFLOP/s")),
        (268.0, 0.45, ("copy of memory", "45 %", "peak")),
    ],
    ids=["product", "copy"],
)
def test_equal_cards_that_are_all_far_below_their_peak_are_named(product, copy_frac, words):
    named = find_named(make_rates("NVIDIA A100-SXM4-80GB", product, copy_frac, 2039.0))
    assert len(named) == 2
    assert all(says(text, *words, DAY, "nvidia-smi") for text in named.values())


def test_a_card_below_its_neighbours_and_its_peak_is_named_once():
    node = make_node("n1", 268.0, 120.0, 268.0, model="NVIDIA A100-SXM4-80GB", copies=[1700.0] * 3)
    (text,) = find_named(node).values()
    assert says(text, "45 %", "of its node") and "peak" not in text


@pytest.mark.parametrize(
    "model", ["NVIDIA A100-SXM4-80GB MIG 1g.10gb", "NVIDIA X900", None], ids=["a part", "unknown", "no name"]
)
def test_an_unknown_peak_is_no_finding(model):
    assert find_named(make_rates(model, 1.0, 0.01, 2000.0)) == {}


def test_a_card_without_a_published_half_rate_is_judged_by_its_memory(tmp_path):
    node = make_rates("NVIDIA RTX PRO 6000 Blackwell Server Edition", 1.0, 0.9, 1597.0)
    spec = make_spec()
    store_run(tmp_path, "run0", spec, reference_kernel={"nodes": [node]})
    row = health.tabulate(plan_of(spec), tmp_path).iloc[0]
    assert pd.isna(row["product_peak_frac"]) and row["copy_peak_frac"] == pytest.approx(0.9)


def place(hostname, *cores):
    topology = {"cores": [{"cores": list(own), "numa_nodes": []} for own in cores], "gpus": [], "links": []}
    return {"hostname": hostname, "gpu_uuids": [], "topology": topology}


@pytest.mark.parametrize(
    ("processes", "words"),
    [
        ([place("n1", [0, 1], [2, 3]), place("n2", [0, 1, 2, 3])], None),
        ([place("n1", [0, 1]), place("n1", [2, 3]), place("n2", range(8)), place("n2", range(8))], None),
        ([place("n1", range(4)), place("n2", [0]), place("n2", [0])], ("n2", "1 core of the 4", "--cpu-bind")),
        ([place("n1", [0, 1, 2]), place("n2", range(4))], ("n1", "3 cores of the 4")),
        ([{"hostname": "n1"}, {"hostname": "n2"}], None),
    ],
    ids=["bound", "shared", "all on one core", "too few", "not recorded"],
)
def test_a_node_whose_processes_have_fewer_cores_than_given_is_named(processes, words):
    record = make_run(make_spec(num_gpus=4, num_nodes=2, cores_per_device=2), processes=processes)
    texts = list(map(str, judge_run(record, [])))
    assert (not texts and words is None) or says(*texts, *words)


def test_one_machine_whose_processes_have_fewer_cores_than_given_is_named():
    topology = place("n1", [0])["topology"]
    (finding,) = judge_run(make_run(make_spec(num_gpus=2, cores_per_device=1), topology=topology), [])
    assert says(str(finding), "1 core of the 2", "bind_cores")
