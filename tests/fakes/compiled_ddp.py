"""PyTorch's DDP with a network that is compiled on CPUs too, as in the tier `best` on GPUs, for tests of the gate."""

from torch._dynamo.utils import counters

from howmanygpus.measure.frameworks.torch.ddp import PytorchDdp
from howmanygpus.measure.frameworks.torch.family import compile_network


def count_graphs():
    return counters["stats"]["unique_graphs"]


class Compiled(PytorchDdp):
    def set_up(self, *arguments):
        super().set_up(*arguments)
        compile_network(self.own_network, self.compile_mode)
        self._num_steps = 0

    def train_step(self, *arguments):
        """Where PyTorch does not compile, it runs what it was given, and says so in a log alone."""
        before = count_graphs()
        super().train_step(*arguments)
        self._num_steps += 1
        if (count_graphs() > before) != (self._num_steps == 1):
            raise RuntimeError(f"step {self._num_steps}: {count_graphs() - before} graphs were compiled")


BACKEND = Compiled
