"""The table of what characterises each framework follows from records, settings and the registry."""

import pytest

from helpers.specs import make_spec
from helpers.stored_runs import plan_of, store_run
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.report.tables import frameworks


def tabulate(tmp_path, *specs, **record) -> list[dict]:
    for number, spec in enumerate(specs):
        store_run(tmp_path, f"run{number}", spec, **record)
    return frameworks.tabulate(plan_of(*specs), tmp_path).to_dict("records")


def test_a_row_has_version_processes_feeding_execution_and_the_exchange_of_the_most_devices(tmp_path):
    specs = [make_spec(num_gpus=count, loader_workers=2, prefetch=2) for count in (1, 2)]
    settings = {"execution": "eager", "layout": "NCHW", "optimizer": "SGD", "exchange": "gloo"}
    (row,) = tabulate(tmp_path, *specs, versions={"torch": "2.13"}, settings=settings, batches_ahead=2)
    assert row["version"] == "torch 2.13" and row["processes"] == "one per device" and row["execution"] == "eager"
    assert row["feeding"] == "shared loader, 2 workers per device (threads); batches ahead: 2"
    assert row["exchange"] == "gloo" and row["loss"] == "on each device"


@pytest.mark.parametrize(
    ("framework", "changes", "expected"),
    [
        ("keras_mirrored", {"launcher": "plain"}, "one for all devices"),
        ("jax_sharding", {"launcher": "per_node"}, "one per node"),
        ("chainer_mn", {"launcher": "mpirun"}, "one per device"),
        ("pytorch_ddp", {"launcher": "independent"}, "one per device, each a run of its own"),
    ],
)
def test_processes_follow_from_the_launcher(tmp_path, framework, changes, expected):
    (row,) = tabulate(tmp_path, make_spec(framework=framework, **changes))
    assert row["processes"] == expected


@pytest.mark.parametrize(("everywhere", "expected"), [(False, "on the first device"), (True, "on each device")])
def test_data_parallel_gathers_outputs_unless_each_device_has_its_loss(tmp_path, everywhere, expected):
    spec = make_spec(framework="pytorch_dp", launcher="plain", loss_on_every_device=everywhere)
    (row,) = tabulate(tmp_path, spec)
    assert row["loss"].startswith(expected)


def test_loaders_of_frameworks_and_images_without_a_loader_are_named(tmp_path):
    specs = [make_spec(variant="own", loader="torch.loader", loader_kind="processes"), make_spec(input="resident")]
    own, resident = tabulate(tmp_path, *specs, batches_ahead=3)
    assert own["feeding"].startswith("own loader (torch.loader), 1 worker per device (processes)")
    assert resident["feeding"] == "resident images; batches ahead: 3"


def test_what_a_framework_lacks_is_what_the_registry_does_not_have(tmp_path):
    (row,) = tabulate(tmp_path, make_spec(framework="mxnet_gluon", launcher="per_node"))
    lacks = row["lacks"].split(", ")
    assert {"bf16", "fp16", "synchronized BatchNorm", "compression of gradients"} <= set(lacks)
    assert "a loader of its own" not in lacks and "several nodes" not in lacks
    ddp = FRAMEWORKS["pytorch_ddp"]
    assert "synchronized BatchNorm" in frameworks.list_lacks(ddp, "cpu")
    assert not frameworks.list_lacks(ddp, "cuda")


def test_programs_of_users_have_no_row(tmp_path):
    assert not tabulate(tmp_path, make_spec(framework="mine"))
