"""PyTorch DistributedDataParallel with one fault, named by PLANTED_FAULT, for tests of the parity gate."""

import os

import numpy as np
import torch
import torch.distributed as dist

from howmanygpus.train.frameworks.torch.ddp import PytorchDdp
from howmanygpus.train.input.batches import TrainingBatches


def keep_own_gradient(_, bucket):
    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


def sum_gradients(_, bucket):
    return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda future: future.value()[0])


class Faulty(PytorchDdp):
    def __init__(self, spec, data, weights, learning_rates):
        self.fault = os.environ["PLANTED_FAULT"]
        if os.environ.get("CRASH_AT") == spec.precision:
            raise RuntimeError("told to crash")
        if self.fault == "stale_weights":
            weights = {name: array * np.float32(1.01) for name, array in weights.items()}
        if self.fault == "permuted_weights":
            weights = weights | {"conv2.kernel": weights["conv2.kernel"][:, ::-1]}
        super().__init__(spec, data, weights, learning_rates)
        if self.fault == "gradients_not_averaged":
            self.network.register_comm_hook(None, keep_own_gradient)
        if self.fault == "gradients_summed":
            self.network.register_comm_hook(None, sum_gradients)
        if self.fault == "dropout_left_on":
            drop = torch.nn.functional.dropout
            self.network.module.model.dense.register_forward_pre_hook(lambda _, inputs: drop(inputs[0], 0.2))
        if self.fault == "wrong_epsilon":
            for module in self.network.modules():
                if hasattr(module, "eps"):
                    module.eps = 1e-3
        self._last_rate = None

    def train(self, loop):
        if self.fault == "anothers_data" and self.rank == 1:
            loop.training_batches = TrainingBatches(loop.spec, loop.data, 0, self.num_processes)
        super().train(loop)

    def put_on_device(self, images, labels):
        return super().put_on_device(images, np.roll(labels, 1) if self.fault == "shuffled_labels" else labels)

    def train_step(self, batch, learning_rate):
        if self.fault == "rate_inside_momentum" and self._last_rate and "momentum" in self.optimizer.param_groups[0]:
            for group in self.optimizer.param_groups:
                group["momentum"] = 0.9 * self._last_rate / learning_rate
        self._last_rate = learning_rate
        super().train_step(batch, learning_rate)

    def predict(self, batch):
        if self.fault == "batch_statistics":
            with torch.no_grad():
                return self.network(*batch.take()).numpy()
        return super().predict(batch)


BACKEND = Faulty
