"""
Dynamic loss scaling of fp16 (Micikevicius et al. 2018), with the same numbers in every framework that has it.

The largest float16 is 65504, and gradients below 6e-8 become zero. The loss is therefore multiplied by a scale before
the backward pass, and the gradients are divided by it in float32. If any of them is not finite on any device, all
devices skip the update and halve the scale. It doubles after GROWTH_INTERVAL steps without a skip.

A skipped step has used its images: it counts as a step of the run, of the epoch and of the learning rate's schedule,
and updates BatchNorm's running statistics. The optimizer's state does not change: neither its moments nor the number
of updates by which Adam corrects them.
"""

from dataclasses import dataclass

GROWTH_INTERVAL = 2000
"""Steps without a skip after which the scale grows, in PyTorch and Keras alike."""
GROWTH_FACTOR, BACKOFF_FACTOR = 2.0, 0.5
"""PyTorch's defaults. In Keras they are fixed."""
MIN_SCALE = 1.0
"""Below this, gradients are not finite in float16 even without a scale."""


@dataclass(frozen=True)
class LossScale:
    """State of the loss scaling. skipped_steps: of the run so far. scale: after the last step."""

    skipped_steps: int
    scale: float

    def explain_divergence(self, num_steps: int, is_over: bool) -> str:
        """Say why the training has failed after num_steps steps; empty if it has not. is_over: no step follows."""
        if self.scale < MIN_SCALE:
            return (
                f"the loss scale fell to {self.scale:g}, below {MIN_SCALE:g}: gradients are not finite in fp16 at "
                f"any scale; {self.skipped_steps} of {num_steps} steps were skipped"
            )
        if is_over and self.skipped_steps == num_steps:
            return (
                f"all {num_steps} steps were skipped, because gradients were not finite in fp16; the loss scale is "
                f"{self.scale:g} in the end: take more steps or a lower loss_scale"
            )
        return ""
