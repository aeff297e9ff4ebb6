"""Unfair protocols are planned beside the study's own runs, or refused if they would change nothing."""

import pytest

from howmanygpus.config.errors import ConfigError
from howmanygpus.config.schema import study_defaults
from howmanygpus.report.outcomes import list_changes
from howmanygpus.report.published import PROTOCOLS
from howmanygpus.site.machine import Device, Machine
from howmanygpus.study.plan import Plan
from howmanygpus.study.published import describe_protocols, list_published
from project import study

CPU = Machine("machine.yaml", {"cpu": Device(8, 1)})
PATTERNS = {"image_shape": [40, 40, 3], "num_classes": 3, "num_train": 256, "num_test": 30}
DATASETS = {"patterns": {"source": "patterns", "options": PATTERNS}}
AUGMENTED = {"own_augmentation": {"pytorch_ddp": {"random_flip": True}}}


def make_plan(given: dict, **changes) -> Plan:
    common = {"dataset": "patterns", "model": "resnet44", "model_options": {"blocks": 1}, "devices": ["cpu"]}
    common |= {"frameworks": ["pytorch_ddp", "chainer_mn"], "per_device_batch_size": [8], "published": "chexnet"}
    return Plan({"studies": {"s": study(**common | {"protocols": given} | changes)}, "datasets": DATASETS}, CPU)


def list_unfair(plan: Plan) -> list:
    return [run for run in plan.studies["s"].runs if run.variant in PROTOCOLS]


def test_a_protocol_repeats_the_runs_of_the_first_variant_in_the_frameworks_that_it_names():
    given = AUGMENTED | {"eval_batch_statistics": ["chainer_mn"]}
    two = {"stock": {"prefetch": 1}, "other": {}}
    plan = make_plan(given, variants=two, inputs=["arrays", "synthetic"], num_gpus=[1, 2])
    planned = plan.studies["s"]
    assert {(run.framework, run.variant, run.input, run.num_gpus) for run in list_unfair(plan)} == {
        *(("pytorch_ddp", "own_augmentation", "arrays", 1), ("pytorch_ddp", "own_augmentation", "arrays", 2)),
        *(("chainer_mn", "eval_batch_statistics", "arrays", 1), ("chainer_mn", "eval_batch_statistics", "arrays", 2)),
    }, "random images are augmented and evaluated by nobody"
    for run in list_unfair(plan):
        twin = next(fair for fair in planned.runs if fair.path == run.path.replace(run.variant, "stock"))
        spec, fair = planned.spec(run), planned.spec(twin)
        differing = {key for key in spec if spec[key] != fair[key]}
        changed = {"own_augmentation": "random_flip", "eval_batch_statistics": "eval_batchnorm"}[run.variant]
        assert differing == {"variant", changed} and spec["prefetch"] == 1
        assert planned.describe()["protocols"][run.path] == {"protocol": run.variant}
        assert plan.verdicts[run.path] == plan.verdicts[twin.path], "the gate checks the same step"


SWITCHED = {
    "eval_first_statistics": {"eval_batchnorm"},
    "frozen_batches": {"frozen_batches"},
    "read_every_loss": {"reads_every_loss"},
}


@pytest.mark.parametrize("protocol", SWITCHED)
def test_a_protocol_changes_its_setting_alone_and_is_gated_if_it_trains_otherwise(protocol):
    plan = make_plan({protocol: ["chainer_mn"]}, num_gpus=[1, 2])
    planned = plan.studies["s"]
    assert {(run.framework, run.variant, run.num_gpus) for run in list_unfair(plan)} == {
        ("chainer_mn", protocol, 1),
        ("chainer_mn", protocol, 2),
    }
    for run in list_unfair(plan):
        twin = next(fair for fair in planned.runs if fair.path == run.path.replace(protocol, "base"))
        spec, fair = planned.spec(run), planned.spec(twin)
        assert {key for key in spec if spec[key] != fair[key]} == {"variant"} | SWITCHED[protocol]
        assert set(planned.settings(run)) - set(planned.settings(twin)) == SWITCHED[protocol]
        is_same_step = protocol == "eval_first_statistics"
        assert (plan.verdicts[run.path] == plan.verdicts[twin.path]) == is_same_step
        old = {"spec": {key: value for key, value in fair.items() if key not in SWITCHED[protocol]}}
        assert list_changes(fair, old, {}) == [], "a run that is older than the key did the same"


def test_an_augmentation_that_changes_the_image_size_has_weights_and_a_verdict_of_its_own():
    plan = make_plan({"own_augmentation": {"pytorch_ddp": {"crop": None}}}, crop=[32, 32], num_gpus=[1])
    (run,) = list_unfair(plan)
    assert "_40x40x3_" in plan.studies["s"].weights_file(run) and "_40x40x3_" in plan.verdicts[run.path]


def test_without_protocols_everything_is_as_before_the_key():
    plain, with_key = make_plan({}), make_plan({"first_epoch_inside": True, "eval_other_images": {"pytorch_ddp": 10}})
    assert plain.settings == with_key.settings and plain.verdicts == with_key.verdicts
    assert not any("eval_batchnorm" in settings for settings in plain.settings.values())
    assert all(plain.studies["s"].spec(run)["eval_batchnorm"] == "running" for run in plain.studies["s"].runs)
    spec = plain.studies["s"].spec(plain.studies["s"].runs[0])
    old = {"spec": {key: value for key, value in spec.items() if key != "eval_batchnorm"}}
    assert list_changes(spec, old, {}) == [], "a run that is older than the key did the same"


def test_images_of_whole_batches_or_a_number_of_images_are_evaluated():
    given = {"eval_other_images": {"pytorch_ddp": "full_batches", "chainer_mn": 7}}
    found = make_plan(given, num_gpus=[1, 2]).studies["s"].describe()["protocols"]
    counts = {(path.split("/")[1], path.split("gpus")[1][0]): one["evaluates"] for path, one in found.items()}
    assert counts == {
        ("pytorch_ddp", "1"): 24,
        ("pytorch_ddp", "2"): 16,
        ("chainer_mn", "1"): 7,
        ("chainer_mn", "2"): 7,
    }
    first = make_plan(given, num_gpus=[2], eval_devices="first", eval_batch_size=7).studies["s"].describe()
    assert {one["evaluates"] for path, one in first["protocols"].items() if "pytorch" in path} == {28}


REFUSED = [
    (
        {"eval_batch_statistics": ["chainer"]},
        {},
        'eval_batch_statistics: "chainer" is not one of the study\'s framewor',
    ),
    ({"eval_other_images": {"jax_sharding": 5}}, {}, 'eval_other_images: "jax_sharding" is not one of the study\'s'),
    (
        {"eval_other_images": {"chainer_mn": 30}},
        {},
        "chainer_mn: 30 has no effect: there are 30 test images; give less",
    ),
    (
        {"eval_other_images": {"chainer_mn": "full_batches"}},
        {"eval_batch_size": 15, "num_gpus": [1, 2]},
        'chainer_mn: "full_batches" has no effect: the 30 test images fill all batches; give a number',
    ),
    (
        {"eval_other_images": {"chainer_mn": "full_batches"}},
        {"eval_batch_size": 31},
        'chainer_mn: "full_batches" leaves none of the 30 test images',
    ),
    (
        {"eval_other_images": {"chainer_mn": "whole"}},
        {},
        '"whole" does not match ^full_batches$; write full_batches, or',
    ),
    (
        {"eval_batch_statistics": ["chainer_mn"]},
        {"model": "small_cnn", "model_options": {}},
        "has no effect on small_cnn, which has no BatchNorm; choose a network that has, or remove it",
    ),
    (
        {"eval_batch_statistics": ["chainer_mn"]},
        {"inputs": ["synthetic"]},
        "has no effect, because the study has only random images",
    ),
    (
        {"eval_batch_statistics": ["chainer_mn"]},
        {"variants": {"eval_batch_statistics": {}}},
        'variants: "eval_batch_statistics" is the name of a protocol; rename the variant',
    ),
    (
        {"eval_first_statistics": ["chainer_mn"]},
        {},
        'eval_first_statistics: ["chainer_mn"] has no effect on one device',
    ),
    (
        {"eval_first_statistics": ["chainer_mn"]},
        {"num_gpus": [2], "batchnorm": "synchronized"},
        'eval_first_statistics: ["chainer_mn"] has no effect with synchronized BatchNorm; set batchnorm: local',
    ),
    (
        {"eval_first_statistics": ["pytorch_dp"]},
        {"num_gpus": [2], "frameworks": ["pytorch_dp"]},
        'eval_first_statistics: "pytorch_dp" has no effect: it always evaluates so; remove it',
    ),
    (
        {"frozen_batches": ["chainer_mn"]},
        {"loader": "native"},
        'frozen_batches: ["chainer_mn"] is done by the shared loader, and the study\'s first variant has another',
    ),
    (
        AUGMENTED,
        {"stop_below_efficiency": 0.5},
        "repeats runs of the study, and stop_below_efficiency may leave them out; make a study of its own for it",
    ),
    (AUGMENTED, {"repeats": "auto"}, "repeats runs of the study, and repeats: auto may leave them out; make a study"),
    (AUGMENTED, {"random_flip": True}, '{"random_flip": true} has no effect: it is what the study does in every'),
    (AUGMENTED, {"published": "dogs"}, "repeats what no published study that this one is set beside has done; give"),
    (AUGMENTED, {"published": None}, "repeats a published study, and this one is set beside none; give `published`"),
    (
        {"own_augmentation": {"pytorch_ddp": {"crop": [50, 50]}}},
        {},
        "own_augmentation.pytorch_ddp.crop: [50, 50] is larger than the stored images",
    ),
    ({"first_epoch": True}, {}, 'protocols: unknown key "first_epoch"; did you mean first_epoch_inside?'),
]


@pytest.mark.parametrize(("given", "changes", "message"), REFUSED)
def test_a_protocol_without_effect_or_meaning_is_refused(given, changes, message):
    with pytest.raises(ConfigError) as raised:
        make_plan(given, **{"num_gpus": [1]} | changes)
    assert str(raised.value).startswith("studies.s.") and message in str(raised.value)


def test_a_program_of_the_user_has_no_protocols():
    with pytest.raises(ConfigError, match=r"protocols: .* has no effect on a program"):
        Plan({"studies": {"s": {"program": {"command": "true"}, "protocols": {"first_epoch_inside": True}}}}, CPU)


def test_a_hybridised_network_cannot_evaluate_by_the_batch():
    given = {"eval_batch_statistics": ["mxnet_gluon"]}
    plan = make_plan(given, frameworks=["mxnet_gluon"], variants={"best": {"tier": "best"}}, num_gpus=[1])
    (run,) = list_unfair(plan)
    assert run.unsupported.startswith("mxnet_gluon hybridizes its network in the best tier")


def test_every_unfair_protocol_of_a_source_is_one_that_a_study_can_switch_on():
    of_sources = {protocol for name in list_published() for protocol in describe_protocols(name)}
    assert of_sources == set(PROTOCOLS) == set(study_defaults()["protocols"])
