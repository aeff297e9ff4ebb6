"""
Simulate the rounding of bf16, tf32 and fp16 in the reference, to learn how far a correct framework may be off.

Mixed precision keeps parameters, losses and running statistics in float32 and everything between the layers in bf16 or
float16, forwards and backwards. While `SimulatedRounding` is open, every result of PyTorch's float64 kernels is
therefore rounded to the significant bits of bf16 (8), or of float16 and TF32 (11), except the loss, which NumPy
computes. This rounding is stochastic: it errs by up to one unit in the last place instead of half a unit, so that the
simulated noise is about 1.4 times that of a framework. Weights are rounded to nearest where layers multiply by them, as
frameworks cast them: their errors are the same for all images and do not cancel in a mean. The range remains that of
float64; values of the gate's tasks are far from the limits of bf16's range, which is that of float32, and loss scaling
keeps gradients in the range of float16.

The noise of 11 bits is usually more than an eighth of that of 8 bits: the number of ReLU inputs that rounding moves to
the other side of zero is proportional to the rounding, and the noise to the square root of that number.
"""

import math

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

MANTISSA_BITS = {"float64": 52, "bf16": 7, "fp16": 10}
"""Bits after the leading one."""
WITH_STATISTICS = {"native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training"}
WITH_STATISTICS |= {"native_layer_norm", "_scaled_dot_product_flash_attention_for_cpu"}
"""Operations whose activations alone are rounded, because statistics stay in float32."""
PRODUCTS = {"convolution", "convolution_backward", "addmm", "mm", "bmm", "baddbmm"}
"""Operations to which frameworks give weights in reduced precision."""


class SimulatedRounding(TorchDispatchMode):
    """While the context is open, results of float64 operations have the precision of bf16 or fp16."""

    def __init__(self, precision: str, seed: int):
        super().__init__()
        self._dropped = MANTISSA_BITS["float64"] - MANTISSA_BITS[precision]
        self._generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        name = operation.overloadpacket.__name__
        if name in PRODUCTS:
            args = tree_map_only(torch.Tensor, self._round_to_nearest, args)
        result = operation(*args, **(kwargs or {}))
        if name in WITH_STATISTICS:
            activations, *statistics = result
            return (self._round(activations), *statistics)
        is_alias = any(returned.alias_info is not None for returned in operation._schema.returns)
        if is_alias:
            return result
        return tree_map_only(torch.Tensor, self._round, result)

    def _round(self, values: torch.Tensor) -> torch.Tensor:
        """Round away from or towards zero, at random with the probabilities that keep the mean."""
        if values.dtype != torch.float64:
            return values
        if not math.isfinite(values.sum()):
            return torch.where(torch.isfinite(values), self._round_finite(values), values)
        return self._round_finite(values)

    def _round_to_nearest(self, values: torch.Tensor) -> torch.Tensor:
        """Round as a framework casts. Activations and gradients are rounded already, so that only weights change."""
        if values.dtype != torch.float64:
            return values
        bits = values.contiguous().view(torch.int64) + 2 ** (self._dropped - 1)
        return bits.bitwise_and_(-(2**self._dropped)).view(torch.float64)

    def _round_finite(self, values: torch.Tensor) -> torch.Tensor:
        noise = torch.empty(values.shape, dtype=torch.int64).random_(0, 2**self._dropped, generator=self._generator)
        bits = noise.add_(values.contiguous().view(torch.int64)).bitwise_and_(-(2**self._dropped))
        return bits.view(torch.float64)
