"""Initial values of parameters."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from torpor.base.missing import names_of
from torpor.tensor import Tensor, no_grad

__all__: Final = ["kaiming_uniform_", "normal_", "ones_", "zeros_"]

if not TYPE_CHECKING:
    __getattr__ = names_of("torpor.nn.init", lambda: __all__)


def default_weight(shape: tuple[int, ...], fan_in: int) -> Tensor:
    """Uniform in +-1/sqrt(fan_in): PyTorch's default of Linear and convolutions, which is
    Kaiming-uniform with a = sqrt(5). He et al., 2015, arXiv:1502.01852, equation 10.
    """
    bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0.0
    return Tensor.uniform(*shape, low=-bound, high=bound, requires_grad=True)


def kaiming_uniform_(tensor: Tensor, a: float = 0.0) -> Tensor:
    """Fill in place with uniform values in +-sqrt(6 / ((1 + a^2) fan_in)); gives the tensor."""
    fan_in = math.prod(size for size in tensor.shape[1:] if isinstance(size, int))
    bound = math.sqrt(6 / ((1 + a * a) * fan_in))
    return _fill(tensor, Tensor.uniform(*tensor.shape, low=-bound, high=bound))


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """Fill in place with normal values; gives the tensor."""
    return _fill(tensor, Tensor.randn(*tensor.shape) * std + mean)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill in place with zeros; gives the tensor."""
    return _fill(tensor, Tensor.zeros(*tensor.shape))


def ones_(tensor: Tensor) -> Tensor:
    """Fill in place with ones; gives the tensor."""
    return _fill(tensor, Tensor.ones(*tensor.shape))


def _fill(tensor: Tensor, value: Tensor) -> Tensor:
    with no_grad():
        return tensor.assign(value.cast(tensor.dtype))
