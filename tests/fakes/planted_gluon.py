"""MXNet Gluon with one fault, for tests of the parity gate."""

from mxnet import gluon

from howmanygpus.train.frameworks.gluon.contexts import MxnetGluon
from howmanygpus.train.frameworks.planted import Planted


class PlantedGluon(Planted, MxnetGluon):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        trained = {name: parameter for name, parameter in self.parameters.items() if parameter.grad_req != "null"}
        if self.fault == "decay_of_kernels_only":
            for parameter in trained.values():
                parameter.wd_mult = float(len(parameter.shape) > 1)
        if self.fault == "not_averaged":
            self.trainer = gluon.Trainer(trained, self.optimizer.optimizer, kvstore=None, update_on_kvstore=False)
        step, parameters = self.trainer.step, [trained["dense.bias"]] if self.fault == "one_layer_not_averaged" else []

        def change_and_step(batch_size):
            for parameter in parameters:
                first, *others = parameter.list_grad()
                first *= len(self.contexts)
                for gradient in others:
                    gradient *= 0
            step(batch_size / len(self.contexts) if self.fault == "summed" else batch_size)

        self.trainer.step = change_and_step

    def prepare_evaluation(self):
        if self.fault != "first_replicas_statistics":
            super().prepare_evaluation()

    def drift(self):
        self.parameters["dense.bias"].data(self.contexts[1])[:] += 1e-6


BACKEND = PlantedGluon
