"""MXNet Gluon with one fault, for tests of the parity gate."""

from contextlib import nullcontext

import mxnet as mx
from mxnet import gluon

from howmanygpus.measure.frameworks.gluon.contexts import MxnetGluon
from howmanygpus.measure.frameworks.gluon.number_formats import read_states
from howmanygpus.measure.frameworks.planted import Planted, round_to_bf16

FIRST_KEY = 1000
"""First key of what is summed in float16. Smaller keys belong to parameters."""


class PlantedGluon(Planted, MxnetGluon):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.keys = set()
        trained = {name: parameter for name, parameter in self.parameters.items() if parameter.grad_req != "null"}
        if self.fault == "decay_of_kernels_only":
            for parameter in trained.values():
                parameter.wd_mult = float(len(parameter.shape) > 1)
        if self.fault == "not_averaged":
            self.trainer = gluon.Trainer(trained, self.optimizer.optimizer, kvstore=None, update_on_kvstore=False)
        if self.fault == "compressed_to_2_bits":
            compressed = {"type": "2bit", "threshold": 0.5}
            self.trainer = gluon.Trainer(
                trained, self.optimizer.optimizer, kvstore="device", compression_params=compressed
            )
        if self.fault == "exchanged_in_float16":
            self.trainer = gluon.Trainer(trained, self.optimizer.optimizer, kvstore="device", update_on_kvstore=False)
            self.trainer._allreduce_grads = lambda: self.sum_in_float16(list(trained.values()))
        if self.fault == "dropout_left_on":
            dense = self.network.model.dense
            compute = dense.forward
            dense.forward = lambda inputs: compute(mx.nd.Dropout(inputs, p=0.2, mode="always"))
        step, parameters = self.trainer.step, [trained["dense.bias"]] if self.fault == "one_layer_not_averaged" else []

        def change_and_step(batch_size):
            for parameter in parameters:
                first, *others = parameter.list_grad()
                first *= len(self.contexts)
                for gradient in others:
                    gradient *= 0
            for gradient in [each for one in trained.values() for each in one.list_grad()]:
                if self.fault == "gradients_in_bf16":
                    gradient[:] = mx.nd.array(round_to_bf16(gradient.asnumpy()), ctx=gradient.context)
            too_large = {"summed": len(self.contexts), "parts_summed": self.spec.accumulate}
            step(batch_size / too_large.get(self.fault, 1))

        self.trainer.step = change_and_step

    def train_step(self, batch, learning_rate):
        if self.fault == "rate_inside_momentum":
            self.optimizer._rate = None
        super().train_step(batch, learning_rate)
        if self.fault == "same_units_in_every_step":
            self.network.model.image_keys._steps_done = 0

    def sum_in_float16(self, parameters):
        store = self.trainer._kvstore
        for key, parameter in enumerate(parameters, start=FIRST_KEY):
            halves = [gradient.astype("float16") for gradient in parameter.list_grad()]
            if key not in self.keys:
                self.keys.add(key)
                store.init(key, halves[0].zeros_like())
            store.push(key, halves)
            store.pull(key, halves)
            for half, gradient in zip(halves, parameter.list_grad(), strict=True):
                gradient[:] = half.astype("float32")

    def round_kept(self, kind):
        named = self.parameters.items()
        arrays = [each for name, one in named if name.endswith((".mean", ".variance")) for each in one.list_data()]
        if kind == "moments":
            arrays = list(read_states(self.trainer).values())
        if kind == "weights":
            arrays = [each for one in self.parameters.values() for each in one.list_data() if one.grad_req != "null"]
        for array in arrays:
            array[:] = mx.nd.array(round_to_bf16(array.asnumpy()), ctx=array.context)

    def predict(self, batch):
        if self.fault == "units_dropped_in_evaluation":
            self.network.model.image_keys.begin_evaluation = self.network.model.image_keys.begin_step
        with mx.autograd.train_mode() if self.fault == "batch_statistics" else nullcontext():
            return super().predict(batch)

    def prepare_evaluation(self):
        if self.fault != "own_statistics":
            super().prepare_evaluation()

    def drift(self):
        self.parameters["dense.bias"].data(self.contexts[1])[:] += 1e-6


BACKEND = PlantedGluon
