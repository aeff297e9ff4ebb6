"""PyTorch DistributedDataParallel with one fault, for tests of the parity gate."""

import functools
import os

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook, fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel

from howmanygpus.measure.frameworks.planted import Planted
from howmanygpus.measure.frameworks.torch import ddp
from howmanygpus.measure.frameworks.torch.ddp import PytorchDdp


def keep_own_gradient(_, bucket):
    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


def sum_gradients(_, bucket):
    return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda future: future.value()[0])


HOOKS = {
    "not_averaged": keep_own_gradient,
    "summed": sum_gradients,
    "exchanged_in_float16": lambda _, bucket: fp16_compress_hook(None, bucket),
}
COMPRESSION = {name: getattr(ddp, name) for name in ("fp16_compress_hook", "powerSGD_hook", "PowerSGDState")}


def exchange_in_callback(_, bucket):
    """Average whole gradients in a thread that PyTorch's dispatcher does not see, after an exchange that it sees."""
    mean = bucket.buffer() / dist.get_world_size()
    begun = dist.all_reduce(torch.zeros(1), async_op=True).get_future()
    return begun.then(lambda _: dist.all_reduce(mean, async_op=True).get_future().wait()[0])


def use_rank_1(*arguments, **options):
    return COMPRESSION["PowerSGDState"](*arguments, **options | {"matrix_approximation_rank": 1})


COMPRESSION_FAULTS = {
    "fp16_not_compressed": {"fp16_compress_hook": allreduce_hook},
    "powersgd_of_full_gradients": {"powerSGD_hook": exchange_in_callback},
    "powersgd_of_rank_1": {"PowerSGDState": use_rank_1},
    "powersgd_without_memory": {
        "PowerSGDState": functools.partial(COMPRESSION["PowerSGDState"], use_error_feedback=False)
    },
}
"""What takes the place of PyTorch's hooks and of their state."""


class WideBackward(torch.autograd.Function):
    """A linear layer in bf16, whose backward pass computes in float32."""

    @staticmethod
    def forward(ctx, inputs, weight, bias):
        ctx.save_for_backward(inputs.float(), weight)
        return torch.nn.functional.linear(inputs.bfloat16(), weight.bfloat16(), bias.bfloat16())

    @staticmethod
    def backward(ctx, gradient):
        inputs, weight = ctx.saved_tensors
        gradient = gradient.float()
        return gradient @ weight, gradient.T @ inputs, gradient.sum(0)


class PlantedTorch(Planted, PytorchDdp):
    def __init__(self, spec, data, weights, learning_rates):
        if os.environ.get("CRASH_AT") == spec.precision:
            raise RuntimeError("told to crash")
        if os.environ["PLANTED_FAULT"] == "permuted_weights":
            weights = weights | {"conv2.kernel": weights["conv2.kernel"][:, ::-1]}
        vars(ddp).update(COMPRESSION | COMPRESSION_FAULTS.get(os.environ["PLANTED_FAULT"], {}))
        super().__init__(spec, data, weights, learning_rates)
        if self.fault in HOOKS:
            self.network.register_comm_hook(None, HOOKS[self.fault])
        if self.fault == "dropout_left_on":
            drop = torch.nn.functional.dropout
            self.network.module.model.dense.register_forward_pre_hook(lambda _, inputs: drop(inputs[0], 0.2))
        if self.fault == "decay_of_kernels_only":
            vectors = [parameter for parameter in self.network.parameters() if parameter.ndim == 1]
            kernels = [parameter for parameter in self.network.parameters() if parameter.ndim > 1]
            self.optimizer.param_groups[0]["params"] = kernels
            self.optimizer.add_param_group({"params": vectors, "weight_decay": 0.0})
        if self.fault in ("computed_in_float32", "precision_ignored"):
            self.network.module.precision = "fp32"
        if self.fault == "unscaled_twice_on_first" and self.rank == 0:
            scale = self.scaler.scale
            self.scaler.scale = lambda loss: scale(loss) / self.scaler.get_scale()
        if self.fault == "trained_in_float32":
            self.network.module.precision = "fp32"
        if self.fault == "backward_in_float32":
            dense = self.network.module.model.dense
            dense.forward = lambda inputs: WideBackward.apply(inputs, dense.weight, dense.bias)
        self._last_rate = self._overflown = None

    def set_up(self, *arguments):
        super().set_up(*arguments)
        if self.fault == "one_layer_not_averaged":
            DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(self.network, ["model.dense.bias"])

    def compute_loss(self, images, labels):
        loss = super().compute_loss(images, labels)
        return loss * self.spec.accumulate if self.fault == "parts_summed" else loss

    def step_optimizer(self):
        if self.fault == "not_unscaled":
            self.optimizer.step()
            return
        if self.fault == "first_device_decides":
            self.scaler.unscale_(self.optimizer)
            self.optimizer.step()
            self.scaler.update()
            return
        if self.fault == "gradients_in_bf16":
            for parameter in self.network.parameters():
                parameter.grad = parameter.grad.bfloat16().float()
        if self.fault == "overflow_applied":
            for parameter in self.network.parameters():
                parameter.grad.nan_to_num_(0.0, 0.0, 0.0)
        super().step_optimizer()

    def train_step(self, batch, learning_rate):
        if self.fault == "schedule_waits" and (self._overflown or self.scaler.read().skipped_steps):
            self._overflown, learning_rate = learning_rate, self._overflown or self._last_rate
        if self.fault == "rate_inside_momentum" and self._last_rate and "momentum" in self.optimizer.param_groups[0]:
            for group in self.optimizer.param_groups:
                group["momentum"] = 0.9 * self._last_rate / learning_rate
        self._last_rate = learning_rate
        super().train_step(batch, learning_rate)
        if self.fault == "same_units_in_every_step":
            self.model.image_keys.steps.zero_()

    @torch.no_grad()
    def round_kept(self, kind):
        buffers = self.model.named_buffers()
        arrays = [buffer for name, buffer in buffers if name.endswith(("running_mean", "running_var"))]
        if kind == "moments":
            arrays = [value for state in self.optimizer.state.values() for value in state.values() if value is not None]
        if kind == "weights":
            arrays = list(self.model.parameters())
        for array in arrays:
            array.copy_(array.bfloat16().float())

    def predict(self, batch):
        if self.fault == "trained_in_float32":
            self.network.module.precision = self.spec.precision
            logits = super().predict(batch)
            self.network.module.precision = "fp32"
            return logits
        if self.fault in ("batch_statistics", "units_dropped_in_evaluation"):
            with torch.no_grad():
                return self.network(*batch.take()).numpy()
        return super().predict(batch)

    def prepare_evaluation(self):
        if self.fault != "own_statistics":
            super().prepare_evaluation()

    @torch.no_grad()
    def drift(self):
        if self.rank == 1:
            self.model.dense.bias.add_(np.float32(1e-6))


BACKEND = PlantedTorch
