"""
The faults that the parity gate is shown, and the check that names each; docs/parity.md is generated from them.

A fault is planted in one strategy of each family, on two devices, by tests/fakes/planted.py and planted_<family>.py.
"""

from typing import NamedTuple


class Fault(NamedTuple):
    """check: one that must fail. optimizer: with which the task is done."""

    check: str
    what: str
    optimizer: str = "sgd"


FAULTS = {
    "stale_weights": Fault("weights", "all weights are 1 % too large when training begins"),
    "batchnorm_epsilon": Fault("evaluation", "BatchNorm adds 1e-3 instead of 1e-5 to the variance"),
    "other_batches": Fault("batches", "the loader draws with another seed"),
    "labels_rolled": Fault("loss", "every image has its neighbour's label"),
    "not_averaged": Fault("averaging", "gradients are those of one device"),
    "summed": Fault("norm", "gradients are summed instead of averaged"),
    "one_layer_not_averaged": Fault("gradients", "the last layer's bias has one device's gradient"),
    "gradients_in_bf16": Fault("gradients", "gradients are rounded to bf16 before the update"),
    "zero": Fault("norm", "all gradients are zero"),
    "flipped": Fault("direction", "all gradients have the other sign"),
    "tripled": Fault("averaging", "all gradients are three times too large"),
    "no_decay": Fault("updates_sgd", "weight decay is missing"),
    "decay_of_kernels_only": Fault("gradients", "weight decay leaves out biases and BatchNorm's parameters"),
    "decay_of_all": Fault("updates_own", "weight decay is not for weights alone, as it should be", "own"),
    "unscaled_rate": Fault("averaging", "the learning rate is not scaled with the global batch"),
    "schedule_by_epoch": Fault("updates_sgd", "the learning rate changes once an epoch instead of every step"),
    "schedule_floor": Fault("updates_sgd", "the learning rate stays at 1 % of its peak where the schedule is below"),
    "window_loss_of_last_step": Fault("losses", "the loss of a window is that of its last step, not the mean", "own"),
    "labels_rolled_from_second_step": Fault("losses", "from step 2 every image has its neighbour's label"),
    "one_replica_one_step_behind": Fault("losses", "the second device trains on the images of the step before"),
    "adam_epsilon": Fault("updates_own", "Adam's epsilon is doubled", "own"),
    "batchnorm_momentum": Fault("statistics", "BatchNorm's momentum is 0.89 instead of 0.9"),
    "unbiased_variance": Fault("statistics", "running variances are divided by n - 1"),
    "own_statistics": Fault("united", "each device evaluates with its own running statistics"),
    "last_batch_lost": Fault("evaluated", "an evaluation leaves out the last, short batch"),
    "evaluated_images_misplaced": Fault(
        "evaluation_after", "an evaluation's images stand one place beside their labels"
    ),
    "evaluated_on_first_misplaced": Fault("evaluation_first", "the same in evaluations on the first device", "own"),
    "one_replica_drifting": Fault("replicas", "one weight of the second device is off by 1e-6"),
    "batch_statistics": Fault("independent", "evaluation uses each batch's own statistics"),
    "dropout_left_on": Fault("repeatable", "evaluation drops a fifth of the last layer's inputs"),
    "rate_inside_momentum": Fault("updates_sgd", "momentum keeps the learning rate of the step that it came from"),
}
"""Planted in every family."""
FAULTS_OF_OPTIMIZERS = {
    "adamw_as_adam": Fault("updates_own", "adamw adds its weight decay to the gradient, as adam does", "own"),
    "schedule_ignored": Fault("updates_own", "the learning rate stays, in place of the schedule `step`", "own"),
}
"""Planted in every family, in a task with adamw."""
FAULTS_OF_PLAIN_SGD = {
    "momentum_kept": Fault("updates_own", "sgd without momentum has one of 0.85", "own"),
    "decay_kept": Fault("updates_own", "sgd without weight decay has one of 0.1", "own"),
}
"""Planted in every family, in a task with plain sgd."""
FAULTS_OF_NUMBERS = {
    "weights_in_bf16": Fault("numbers", "weights are rounded to bf16 after each step"),
    "moments_in_bf16": Fault("numbers", "the optimizer's moments are rounded to bf16"),
    "statistics_in_bf16": Fault("numbers", "running statistics are rounded to bf16"),
    "loss_in_bf16": Fault("numbers", "the loss is rounded to bf16"),
}
"""Planted in every family, in fp32 and in bf16."""
IGNORED_PRECISION = {"precision_ignored": Fault("noise", "a network in bf16 computes in float32")}
"""Planted in bf16, in every family that has it."""
FAULTS_OF_LABELS = {
    "missing_label_is_absent": Fault("loss", "a label of which nobody knows whether the image has it counts as absent"),
    "labels_unweighted": Fault("loss", "a known label has weight 1, however few labels of the batch are known"),
    "labels_weighed_by_device": Fault("loss", "each device takes the mean over its own known labels"),
}
"""Planted in every family, in a task with any number of labels an image."""
FAULTS_OF_DROPOUT = {
    "other_units_dropped": Fault("gradients", "dropout draws with another seed"),
    "same_units_in_every_step": Fault("losses", "dropout draws as in the first step"),
    "units_dropped_in_evaluation": Fault("evaluation", "dropout is on in evaluation"),
}
"""Planted in every family, in a network that drops units."""
FAULTS_OF_ACCUMULATION = {
    "parts_summed": Fault("averaging", "gradients of the batches of a step are summed instead of averaged"),
    "first_part_again": Fault("gradients", "each batch of a step is the first one"),
    "third_part_lost": Fault("gradients", "from the third on, each batch of a step is the second one"),
}
"""Planted in every family, in a task whose steps take three batches of each device."""
FAULTS_OF_FP16 = {
    "not_unscaled": Fault("averaging", "gradients are not divided by the loss scale"),
    "unscaled_twice_on_first": Fault("averaging", "the first device divides by it before the mean and again after it"),
    "overflow_applied": Fault("skipped", "a step with an overflow updates the weights by the finite gradients"),
    "first_device_decides": Fault("losses", "overflows on other devices than the first reach the weights"),
    "schedule_waits": Fault("updates_sgd", "the learning rate's schedule does not count a skipped step"),
    "computed_in_float32": Fault("losses", "the network computes in float32"),
}
"""Planted in fp16, in every family that has it."""
FAULTS_OF_EXCHANGE = {
    "trained_in_float32": Fault("numbers", "a network in bf16 trains in float32 and predicts in bf16"),
    "backward_in_float32": Fault("numbers", "the backward pass of a network in bf16 computes in float32"),
    "exchanged_in_float16": Fault("exchange", "gradients are exchanged in float16 without saying so"),
}
"""Planted in bf16, in every family that has it."""
EXCHANGED = "exchanged_in_float16"
"""The fault that is planted in fp32 too, in every family."""
FAULTS_OF_KVSTORE = {
    "compressed_to_2_bits": Fault("exchange", "the kvstore compresses gradients to 2 bits without saying so"),
}
"""Planted in gluon, whose kvstore compresses what it is given."""
FAULTS_OF_COMPRESSION = {
    "fp16_not_compressed": Fault("exchange", "compression by fp16 exchanges float32"),
    "powersgd_of_full_gradients": Fault("exchange", "PowerSGD exchanges whole gradients, in a thread of its own"),
    "powersgd_of_rank_1": Fault("exchange", "PowerSGD of rank 2 exchanges factors of rank 1"),
    "powersgd_without_memory": Fault("exchange", "PowerSGD forgets the errors of its approximations"),
}
"""Planted in pytorch_ddp, in fp32 and bf16, with the compression that each begins with."""
IN_BF16 = ("zero", "flipped", "tripled")
"""Planted again in bf16, in every family that has it."""
NONE = "none"
"""The last, so that a fault that outlives its turn is seen."""


class Family(NamedTuple):
    """The strategy that is made faulty. environment: on CPUs."""

    strategy: str
    launcher: str
    environment: str
    has_bf16: bool
    has_fp16: bool = False


FAMILIES = {
    "torch": Family("pytorch_ddp", "per_device", "pytorch-cpu", True, True),
    "keras": Family("tensorflow_mirrored", "plain", "tensorflow-cpu", True, True),
    "flax": Family("jax_sharding", "per_node", "jax-cpu", True),
    "gluon": Family("mxnet_gluon", "per_node", "mxnet-cpu", False),
    "chainer": Family("chainer_mn", "mpirun", "chainer-cpu", False),
}


FAULTY_HOROVOD = {
    "faulty_horovod": ("torch", "horovod-pytorch-cpu"),
    "faulty_horovod_tensorflow": ("keras", "horovod-tensorflow-cpu"),
    "faulty_horovod_keras": ("keras", "horovod-tensorflow-cpu"),
}
"""Horovod's backends with faults of their own: family and environment."""
