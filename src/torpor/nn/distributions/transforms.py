"""Maps of draws that can be undone, with the logarithm of how much they stretch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torpor.tensor import Tensor, as_tensor


class Transform:
    """`transform(x)`, `transform.inv(y)`, and `log_abs_det_jacobian(x, y)` of a pair of these.
    `sign` is -1 where it turns the order around.
    """

    sign: Any = as_tensor(1)

    def __call__(self, x: Any) -> Any:
        raise NotImplementedError

    def inv(self, y: Any) -> Any:
        """The x of which this is y."""
        raise NotImplementedError(f"{type(self).__name__} cannot be undone")

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """log |dy / dx|."""
        raise NotImplementedError(f"{type(self).__name__} has no Jacobian")


def transform_of(name: str, forward: Any, inverse: Any, slope: Any) -> Any:
    """The class `name` of transforms without parameters."""
    members = {
        "__call__": lambda self, x: forward(x), "inv": lambda self, y: inverse(y),
        "log_abs_det_jacobian": lambda self, x, y: slope(x, y),
        "__module__": "torpor.nn.distributions",
        "__doc__": f"`{name.removesuffix('Transform').lower()}` of samples, whose shape stays, "
        "its inverse `inv`, and the logarithm of its slope.",
    }  # fmt: skip
    return type(name, (Transform,), members)


def _logit(y: Any) -> Any:
    return y.clamp(2.0**-126, 1 - 2.0**-24).logit()


ExpTransform = transform_of("ExpTransform", Tensor.exp, Tensor.log, lambda x, y: x)
SigmoidTransform = transform_of(
    "SigmoidTransform", Tensor.sigmoid, _logit, lambda x, y: -x.softplus() - (-x).softplus()
)
TanhTransform = transform_of(
    "TanhTransform", Tensor.tanh, Tensor.atanh,
    lambda x, y: (math.log(2) - x - (x * -2).softplus()) * 2,
)  # fmt: skip
SoftplusTransform = transform_of(
    "SoftplusTransform", Tensor.softplus, lambda y: (-(-y).expm1()).log() + y,
    lambda x, y: -(-x).softplus(),
)  # fmt: skip
AbsTransform = transform_of("AbsTransform", Tensor.abs, lambda y: y, lambda x, y: x * 0)
SoftmaxTransform = transform_of(
    "SoftmaxTransform", lambda x: x.softmax(-1), Tensor.log, Transform.log_abs_det_jacobian
)


class AffineTransform(Transform):
    """loc + scale x."""

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0):
        self.loc, self.scale = loc, scale

    @property
    def sign(self) -> Any:
        """That of the scale."""
        return as_tensor(self.scale).sign()

    def __call__(self, x: Any) -> Any:
        return x * self.scale + self.loc

    def inv(self, y: Any) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return as_tensor(self.scale).abs().log().cast(x.dtype) + x * 0


class PowerTransform(Transform):
    """x to the power of the exponent."""

    def __init__(self, exponent: Any):
        self.exponent = exponent

    def __call__(self, x: Any) -> Any:
        return x**self.exponent

    def inv(self, y: Any) -> Any:
        return y ** (1 / self.exponent)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return (y * self.exponent / x).abs().log()


class ComposeTransform(Transform):
    """Transforms one after the other."""

    def __init__(self, parts: Sequence[Transform]):
        self.parts = list(parts)

    @property
    def sign(self) -> Any:
        """The product of the parts' signs."""
        made = as_tensor(1)
        for part in self.parts:
            made = made * part.sign
        return made

    def __call__(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
        return x

    def inv(self, y: Any) -> Any:
        for part in reversed(self.parts):
            y = part.inv(y)
        return y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        total = x * 0
        for part in self.parts:
            after = part(x)
            total, x = total + part.log_abs_det_jacobian(x, after), after
        return total
