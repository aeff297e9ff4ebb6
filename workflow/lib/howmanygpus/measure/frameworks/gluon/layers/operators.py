"""MXNet has each operator twice, for arrays and for the symbols of a hybridised network."""

from types import ModuleType
from typing import TypeAlias

import mxnet as mx

Tensor: TypeAlias = mx.nd.NDArray | mx.sym.Symbol


def operators_of(x: Tensor) -> ModuleType:
    """Return the module of operators that take x, an array or a symbol."""
    return mx.sym if isinstance(x, mx.sym.Symbol) else mx.nd
