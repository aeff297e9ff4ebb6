"""Loss scaling of the PyTorch family: torch.amp.GradScaler, and how many steps it has skipped."""

from typing import Any

import torch

from howmanygpus.measure.loss_scaling import BACKOFF_FACTOR, GROWTH_FACTOR, GROWTH_INTERVAL, LossScale
from howmanygpus.measure.spec import RunSpec


class LossScaler(torch.amp.GradScaler):
    """In any precision but fp16, losses and steps are passed on unchanged, as by a GradScaler that is not enabled."""

    def __init__(self, spec: RunSpec, device: torch.device):
        options: dict[str, Any] = {"growth_factor": GROWTH_FACTOR, "backoff_factor": BACKOFF_FACTOR}
        options |= {"growth_interval": GROWTH_INTERVAL, "enabled": spec.precision == "fp16"}
        super().__init__(device.type, spec.loss_scale, **options)
        self._skipped = torch.zeros((), dtype=torch.int64, device=device)

    def step(self, optimizer: torch.optim.Optimizer, *arguments, **options) -> None:
        """Take a step, and count skipped steps on the device, where the flags are, so that nothing waits for them."""
        super().step(optimizer, *arguments, **options)
        if self.is_enabled():
            flags = [flag.to(self._skipped.device) for flag in self._found_inf_per_device(optimizer).values()]
            self._skipped += torch.stack(flags).any()

    def read(self) -> LossScale | None:
        return LossScale(int(self._skipped), self.get_scale()) if self.is_enabled() else None

    def describe(self) -> dict[str, str]:
        """Return its entry in `settings` of run.schema.yaml."""
        if not self.is_enabled():
            return {}
        growth = f"x {self.get_growth_factor():g} after {self.get_growth_interval()} steps"
        initial = f"torch.amp.GradScaler, {self._init_scale:g} at first"
        return {"loss_scaling": f"{initial}, {growth}, x {self.get_backoff_factor():g} after a skipped one"}
