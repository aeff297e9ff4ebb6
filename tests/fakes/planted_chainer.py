"""ChainerMN with one fault, for tests of the parity gate."""

import os

import chainer
import chainer.functions as F
import numpy as np

from howmanygpus.measure.frameworks.chainer.multi_node import ChainerMn
from howmanygpus.measure.frameworks.planted import Planted, round_to_bf16

DECAY = chainer.optimizer_hooks.WeightDecay


class DecayOfKernelsOnly(DECAY):
    def __call__(self, rule, parameter):
        if parameter.ndim > 1:
            super().__call__(rule, parameter)


def drop(inputs):
    with chainer.using_config("train", True):
        return F.dropout(inputs, 0.2)


class PlantedChainer(Planted, ChainerMn):
    def __init__(self, *arguments):
        only_kernels = os.environ["PLANTED_FAULT"] == "decay_of_kernels_only"
        chainer.optimizer_hooks.WeightDecay = DecayOfKernelsOnly if only_kernels else DECAY
        super().__init__(*arguments)
        average = self.communicator.multi_node_mean_grad
        factors = {"summed": self.communicator.size, "parts_summed": self._accumulate}

        def average_faultily(network, *options):
            own = network.model.dense.b.grad.copy()
            if self.fault == "exchanged_in_float16":
                for parameter in network.params():
                    half = parameter.grad.astype(np.float16)
                    self.communicator._multi_node_mean(None, half)
                    parameter.grad[...] = half
            elif self.fault != "not_averaged":
                average(network, *options)
            if self.fault == "one_layer_not_averaged":
                network.model.dense.b.grad = own
            if self.fault == "gradients_in_bf16":
                for parameter in network.params():
                    parameter.grad = round_to_bf16(parameter.grad)
            if self.fault in factors:
                for parameter in network.params():
                    parameter.grad *= factors[self.fault]

        self.communicator.multi_node_mean_grad = average_faultily
        if self.fault == "dropout_left_on":
            dense = self.network.model.dense
            compute = dense.forward
            dense.forward = lambda inputs: compute(drop(inputs))

    def train_step(self, batch, learning_rate):
        if self.fault == "rate_inside_momentum":
            self.optimizer._rate = None
        super().train_step(batch, learning_rate)
        if self.fault == "same_units_in_every_step":
            self.network.model.image_keys.steps = 0

    def round_kept(self, kind):
        links = [link for link in self.network.model.links() if hasattr(link, "avg_var")]
        arrays = [array for link in links for array in (link.avg_mean, link.avg_var)]
        if kind == "moments":
            states = [parameter.update_rule.state or {} for parameter in self.network.params()]
            arrays = [value for state in states for value in state.values() if isinstance(value, np.ndarray)]
        if kind == "weights":
            arrays = [parameter.array for parameter in self.network.params()]
        for array in arrays:
            array[...] = round_to_bf16(array)

    def predict(self, batch):
        if self.fault not in ("batch_statistics", "units_dropped_in_evaluation"):
            return super().predict(batch)
        with chainer.no_backprop_mode():
            return self.network(*batch.take()).array

    def prepare_evaluation(self):
        if self.fault != "own_statistics":
            super().prepare_evaluation()

    def drift(self):
        if self.rank == 1:
            self.network.model.dense.b.array += 1e-6


BACKEND = PlantedChainer
