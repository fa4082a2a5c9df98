"""Floor 6: the `Tensor` handle, one file a family of methods."""

from torpor.tensor.checkpoint import checkpoint
from torpor.tensor.complex_methods import complete as _complete  # noqa: F401
from torpor.tensor.contraction import einsum
from torpor.tensor.creation import as_tensor
from torpor.tensor.differentiate import grad, value_and_grad
from torpor.tensor.mode import device, enable_grad, no_grad, set_default_dtype
from torpor.tensor.random import Generator, manual_seed
from torpor.tensor.realisation import lower
from torpor.tensor.short_time import istft, stft
from torpor.tensor.tensor import Tensor

__all__ = [
    "Generator",
    "Tensor",
    "as_tensor",
    "checkpoint",
    "device",
    "einsum",
    "enable_grad",
    "grad",
    "istft",
    "lower",
    "manual_seed",
    "no_grad",
    "set_default_dtype",
    "stft",
    "value_and_grad",
]
