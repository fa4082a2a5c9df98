"""Initial values of parameters, with PyTorch's names and distributions: each function fills a
tensor of any shape, or of the number of axes that it says (else a `ShapeError`), and gives it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from torpor.base.errors import ShapeError, ValueRangeError
from torpor.base.missing import names_of
from torpor.tensor import Generator, Tensor, no_grad
from torpor.tensor.host import known_shape
from torpor.tensor.spelling import among, whole_number, within

__all__: Final = [
    "calculate_gain", "constant_", "dirac_", "eye_", "kaiming_normal_", "kaiming_uniform_",
    "normal_", "ones_", "orthogonal_", "sparse_", "trunc_normal_", "uniform_", "xavier_normal_",
    "xavier_uniform_", "zeros_",
]  # fmt: skip
GAINS: Final = {
    "linear": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2), "selu": 3 / 4,
    **{f"conv{turned}{axes}d": 1.0 for axes in (1, 2, 3) for turned in ("", "_transpose")},
}  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = names_of("torpor.nn.init", lambda: __all__)


def default_weight(shape: tuple[int, ...], fan_in: int) -> Tensor:
    """Uniform in +-1/sqrt(fan_in): PyTorch's default of Linear and convolutions, which is
    Kaiming-uniform with a = sqrt(5). He et al., 2015, arXiv:1502.01852, equation 10.
    """
    fan_in = whole_number(fan_in)
    bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0.0
    return Tensor.uniform(*shape, low=-bound, high=bound, requires_grad=True)


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """By how much the deviation of weights before this nonlinearity is scaled."""
    if nonlinearity == "leaky_relu":
        return math.sqrt(2 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity not in GAINS:
        raise ValueRangeError(f"no gain is known of the nonlinearity {nonlinearity!r}")
    return GAINS[nonlinearity]


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """How many inputs, and outputs, an element of weights (out, in, ...) takes part in."""
    shape = known_shape(tensor.shape)
    if len(shape) < 2:
        raise ShapeError(f"weights of two axes or more have fans, not {shape}")
    field = math.prod(shape[2:])
    return shape[1] * field, shape[0] * field


def _fill(tensor: Tensor, value: Any) -> Tensor:
    with no_grad():
        return tensor.assign(value.to(tensor.device).cast(tensor.dtype))


def _options(tensor: Tensor, generator: Generator | None) -> dict[str, Any]:
    return {"dtype": tensor.dtype, "device": tensor.device, "generator": generator}


def uniform_(
    tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Fill in place with uniform values in [a, b); gives the tensor, as all of these do."""
    options = _options(tensor, generator)
    return _fill(tensor, Tensor.uniform(*tensor.shape, low=a, high=b, **options))


def normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Fill in place with normal values."""
    return _fill(tensor, Tensor.randn(*tensor.shape, **_options(tensor, generator)) * std + mean)


def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Fill in place with normal values of which only those between a and b are taken: by the
    inverse of the distribution's function.
    """
    low, high = (math.erf((end - mean) / std / math.sqrt(2)) for end in (a, b))
    options = {**_options(tensor, generator), "dtype": "float64"}
    drawn = Tensor.uniform(*tensor.shape, low=low, high=high, **options)
    return _fill(tensor, (drawn.erfinv() * (std * math.sqrt(2)) + mean).clamp(a, b))


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill in place with one number."""
    return _fill(tensor, tensor.detach().full_like(val))


def zeros_(tensor: Tensor) -> Tensor:
    """Fill in place with zeros."""
    return constant_(tensor, 0.0)


def ones_(tensor: Tensor) -> Tensor:
    """Fill in place with ones."""
    return constant_(tensor, 1.0)


def eye_(tensor: Tensor) -> Tensor:
    """Fill a matrix in place with the identity."""
    if tensor.ndim != 2:
        raise ShapeError(f"eye_ fills matrices, not {tensor.shape}")
    rows, columns = known_shape(tensor.shape)
    return _fill(tensor, Tensor.eye(rows, columns))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill the weights (out, in, ...) of a convolution in place so that each group hands on its
    first channels.
    """
    shape = known_shape(tensor.shape)
    if len(shape) not in (3, 4, 5) or shape[0] % groups:
        raise ShapeError(f"no weights of a convolution in {groups} groups: {shape}")
    each = shape[0] // groups
    centre = 0
    for size in shape[2:]:
        centre = centre * size + size // 2
    line = Tensor.arange(math.prod(shape[2:])).eq(centre).float()
    channels = Tensor.eye(each, shape[1]).repeat(groups, 1)
    return _fill(tensor, (channels.unsqueeze(2) * line).reshape(shape))


def xavier_uniform_(
    tensor: Tensor, gain: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Fill in place with uniform values in ±gain sqrt(6 / (fan in + fan out)). Glorot and Bengio,
    2010, equation 16.
    """
    bound = gain * math.sqrt(6 / sum(_calculate_fan_in_and_fan_out(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill in place with normal values of deviation gain sqrt(2 / (fan in + fan out))."""
    return normal_(
        tensor, 0.0, gain * math.sqrt(2 / sum(_calculate_fan_in_and_fan_out(tensor))), generator
    )


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    """How many inputs or outputs are summed over."""
    among("mode", mode, "fan_in", "fan_out")
    return _calculate_fan_in_and_fan_out(tensor)[mode == "fan_out"]


def _deviation(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan) if fan else 0.0


def kaiming_uniform_(
    tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Fill in place with uniform values in ±gain sqrt(3 / fan), where the gain is that of the
    nonlinearity (of a leaky_relu of slope a). He et al., 2015, arXiv:1502.01852, equation 10.
    """
    bound = math.sqrt(3) * _deviation(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Fill in place with normal values of deviation gain / sqrt(fan)."""
    return normal_(tensor, 0.0, _deviation(tensor, a, mode, nonlinearity), generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """Fill in place so that the rows (out, the rest), or the columns if they are fewer, are
    orthogonal and of length `gain`. Saxe, McClelland and Ganguli, 2013, arXiv:1312.6120.
    """
    if tensor.ndim < 2:
        raise ShapeError(f"orthogonal_ fills tensors of two axes or more, not {tensor.shape}")
    shape = known_shape(tensor.shape)
    rows, columns = shape[0], math.prod(shape[1:])
    size = (max(rows, columns), min(rows, columns))
    drawn = Tensor.randn(*size, device=tensor.device, generator=generator)
    q, r = drawn.qr()
    q = q * r.diagonal().sign()
    turned = q if rows >= columns else q.mT
    return _fill(tensor, turned.reshape(shape) * gain)


def sparse_(
    tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None
) -> Tensor:
    """Fill a matrix in place with normal values, of which this share in each column is 0. Martens,
    2010.
    """
    if tensor.ndim != 2:
        raise ShapeError(f"sparse_ fills matrices, not {tensor.shape}")
    within("sparsity", sparsity, 0, 1)
    options = _options(tensor, generator)
    count = math.ceil(sparsity * known_shape(tensor.shape)[0])
    rank = Tensor.rand(*tensor.shape, **{**options, "dtype": "float32"}).argsort(0).argsort(0)
    drawn = Tensor.randn(*tensor.shape, **options) * std
    return _fill(tensor, (rank < count).where(0.0, drawn))
