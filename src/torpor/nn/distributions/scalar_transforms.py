"""Maps of draws that can be undone, with the logarithm of how much they stretch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from torpor.nn.distributions import constraints as C
from torpor.tensor import Tensor, as_tensor

Shape = tuple[Any, ...]


def summed(x: Any, count: int) -> Any:
    """The sum over the last `count` axes."""
    return x.sum(tuple(range(-count, 0))) if count else x


class Transform:
    """`transform(x)`, `transform.inv(y)`, and `log_abs_det_jacobian(x, y)` of a pair of these.
    `sign` is -1 where it turns the order around. `domain` and `codomain` are constraints of x and
    y. Classes of users say `_call`, `_inverse` and `log_abs_det_jacobian`; `cache_size` says
    nothing here, where what is computed twice is computed once.

    >>> class Double(torpor.distributions.Transform):
    ...     bijective, sign = True, 1
    ...     def _call(self, x):
    ...         return x * 2
    ...     def _inverse(self, y):
    ...         return y / 2
    ...     def log_abs_det_jacobian(self, x, y):
    ...         return (x * 0 + 2).log()
    >>> base = torpor.distributions.Exponential(2.0)
    >>> round(torpor.distributions.TransformedDistribution(base, Double()).log_prob(1.0).item(), 6)
    -1.0
    """

    bijective: Any = False
    domain: Any = C.real
    codomain: Any = C.real

    def __init__(self, cache_size: int = 0):
        pass

    @property
    def sign(self) -> Any:
        """1 or -1, where it keeps or turns around the order of numbers."""
        raise NotImplementedError(f"{type(self).__name__} has no sign")

    @property
    def event_dim(self) -> int:
        """How many axes one x has."""
        return int(self.domain.event_dim)

    @property
    def inv(self) -> Transform:
        """The transform that gives x of y."""
        return Inverse(self)

    def __call__(self, x: Any) -> Any:
        return self._call(x)

    def _call(self, x: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say what it computes: _call")

    def _inverse(self, y: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} cannot be undone")

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """log |dy / dx| of each event."""
        raise NotImplementedError(f"{type(self).__name__} has no Jacobian")

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Itself."""
        return self

    def forward_shape(self, shape: Sequence[int]) -> Shape:
        """The shape of y for an x of this one."""
        return tuple(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Shape:
        """The shape of x for a y of this one."""
        return tuple(shape)

    def __eq__(self, other: object) -> bool:
        """Whether it is of the same class, and made with the same numbers."""
        own, its = ({name: value for name, value in vars(one).items() if "domain" not in name}
                    for one in (self, other))  # fmt: skip
        return type(self) is type(other) and equal([*own.values()], [*its.values()])

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def equal(one: Any, other: Any) -> bool:
    """Whether numbers, tensors and transforms, or lists of them, are the same."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    return bool(as_tensor(one == other).all())


class Inverse(Transform):
    """The other direction of a transform."""

    def __init__(self, whole: Transform):
        self._whole = whole

    domain = property(lambda self: self._whole.codomain)
    codomain = property(lambda self: self._whole.domain)
    bijective = property(lambda self: self._whole.bijective)
    sign = property(lambda self: self._whole.sign)
    inv = property(lambda self: self._whole)

    def _call(self, x: Any) -> Any:
        return self._whole._inverse(x)

    def _inverse(self, y: Any) -> Any:
        return self._whole(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -self._whole.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Sequence[int]) -> Shape:
        return self._whole.inverse_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Shape:
        return self._whole.forward_shape(shape)

    def __repr__(self) -> str:
        return f"Inverse({self._whole!r})"


def transform_of(
    name: str, forward: Callable[..., Any], inverse: Callable[..., Any], slope: Any = None,
    codomain: Any = C.real, domain: Any = C.real, sign: int | None = 1,
) -> Any:  # fmt: skip
    """The class `name` of transforms without parameters: of numbers, which keep their order, unless
    `sign` is None.
    """
    members = {
        "_call": lambda self, x: forward(x), "_inverse": lambda self, y: inverse(y),
        "domain": domain, "codomain": codomain, "bijective": slope is not None,
        "__module__": "torpor.nn.distributions",
        "__doc__": f"`{name.removesuffix('Transform')}` of samples, its inverse `inv`, and the "
        "logarithm of its slope.",
    }  # fmt: skip
    if slope is not None:
        members["log_abs_det_jacobian"] = lambda self, x, y: slope(x, y)
    if sign is not None:
        members["sign"] = sign
    return type(name, (Transform,), members)


ExpTransform = transform_of(
    "ExpTransform", lambda x: x.exp(), lambda y: y.log(), lambda x, y: x, C.positive
)
SigmoidTransform = transform_of(
    "SigmoidTransform", lambda x: x.sigmoid(),
    lambda y: y.clamp(2.0**-126, 1 - 2.0**-24).logit(),
    lambda x, y: -x.softplus() - (-x).softplus(), C.unit_interval,
)  # fmt: skip
TanhTransform = transform_of(
    "TanhTransform", lambda x: x.tanh(), lambda y: y.atanh(),
    lambda x, y: (math.log(2) - x - (x * -2).softplus()) * 2, C.interval(-1.0, 1.0),
)  # fmt: skip
SoftplusTransform = transform_of(
    "SoftplusTransform", lambda x: x.softplus(), lambda y: (-(-y).expm1()).log() + y,
    lambda x, y: -(-x).softplus(), C.positive,
)  # fmt: skip
AbsTransform = transform_of(
    "AbsTransform", lambda x: x.abs(), lambda y: y, None, C.positive, sign=None
)


class AffineTransform(Transform):
    """loc + scale x; of whole events of `event_dim` axes."""

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0):
        self.loc, self.scale, self._count = loc, scale, event_dim
        self.domain = self.codomain = C.independent(C.real, event_dim) if event_dim else C.real

    sign = property(lambda self: as_tensor(self.scale).sign(), doc="That of the scale.")

    def _call(self, x: Any) -> Any:
        return x * self.scale + self.loc

    def _inverse(self, y: Any) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return summed(as_tensor(self.scale).abs().log().cast(x.dtype) + x * 0, self._count)

    def forward_shape(self, shape: Sequence[int]) -> Shape:
        parameters = (tuple(as_tensor(one).shape) for one in (self.loc, self.scale))
        return tuple(Tensor.broadcast_shapes(tuple(shape), *parameters))

    inverse_shape = forward_shape


class PowerTransform(Transform):
    """x to the power of the exponent."""

    bijective = True
    domain = codomain = C.positive

    def __init__(self, exponent: Any, cache_size: int = 0):
        self.exponent = exponent

    sign = property(lambda self: as_tensor(self.exponent).sign(), doc="That of the exponent.")

    def _call(self, x: Any) -> Any:
        return x**self.exponent

    def _inverse(self, y: Any) -> Any:
        return y ** (1 / self.exponent)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return (y * self.exponent / x).abs().log()

    def forward_shape(self, shape: Sequence[int]) -> Shape:
        return tuple(Tensor.broadcast_shapes(tuple(shape), tuple(as_tensor(self.exponent).shape)))

    inverse_shape = forward_shape


class CumulativeDistributionTransform(Transform):
    """The probability of draws of a distribution up to x: from its numbers to those from 0 to 1."""

    bijective, sign, codomain = True, 1, C.unit_interval

    def __init__(self, distribution: Any, cache_size: int = 0):
        self.distribution = distribution
        self.domain = distribution.support

    def _call(self, x: Any) -> Any:
        return self.distribution.cdf(x)

    def _inverse(self, y: Any) -> Any:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return self.distribution.log_prob(x)


# --- of others ------------------------------------------------------------------------------------
def raised(constraint: Any, axes: int) -> Any:
    """The constraint, of events of so many axes."""
    missing = axes - constraint.event_dim
    return C.independent(constraint, missing) if missing else constraint


class ComposeTransform(Transform):
    """Transforms one after the other."""

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0):
        self.parts = list(parts)
        domain, codomain = 0, 0
        for part in reversed(self.parts):
            before, after = part.domain.event_dim, part.codomain.event_dim
            domain = max(domain + before - after, before)
        for part in self.parts:
            before, after = part.domain.event_dim, part.codomain.event_dim
            codomain = max(codomain + after - before, after)
        if self.parts:
            self.domain = raised(self.parts[0].domain, domain)
            self.codomain = raised(self.parts[-1].codomain, codomain)

    bijective = property(lambda self: all(part.bijective for part in self.parts))

    sign = property(
        lambda self: math.prod(part.sign for part in self.parts), doc="The product of the parts'."
    )

    def _call(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
        return x

    def _inverse(self, y: Any) -> Any:
        for part in reversed(self.parts):
            y = part._inverse(y)
        return y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        total, axes = summed(x * 0, self.event_dim), self.event_dim
        for part in self.parts:
            after = part(x)
            slope = part.log_abs_det_jacobian(x, after)
            total, x = total + summed(slope, axes - part.domain.event_dim), after
            axes += part.codomain.event_dim - part.domain.event_dim
        return total

    def forward_shape(self, shape: Sequence[int]) -> Shape:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return tuple(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Shape:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return tuple(shape)

    def __repr__(self) -> str:
        return f"ComposeTransform({self.parts!r})"


class IndependentTransform(Transform):
    """Another transform, of events with `reinterpreted_batch_ndims` axes more."""

    def __init__(
        self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0
    ):
        self.base_transform = base_transform
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        self.domain = C.independent(base_transform.domain, reinterpreted_batch_ndims)
        self.codomain = C.independent(base_transform.codomain, reinterpreted_batch_ndims)

    bijective = property(lambda self: self.base_transform.bijective)
    sign = property(lambda self: self.base_transform.sign)

    def _call(self, x: Any) -> Any:
        return self.base_transform(x)

    def _inverse(self, y: Any) -> Any:
        return self.base_transform._inverse(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        slope = self.base_transform.log_abs_det_jacobian(x, y)
        return summed(slope, self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Sequence[int]) -> Shape:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Shape:
        return self.base_transform.inverse_shape(shape)


class CatTransform(Transform):
    """One of the transforms `tseq` for each piece along axis `dim`, of `lengths` (1 each)."""

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ):  # fmt: skip
        self.transforms, self.dim = list(tseq), dim
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        self.domain, self.codomain = (
            C.cat([getattr(one, which) for one in tseq], dim, self.lengths)
            for which in ("domain", "codomain")
        )

    bijective = property(lambda self: all(one.bijective for one in self.transforms))

    def _taken(self, x: Any) -> Any:
        return x.split(self.lengths, self.dim)

    def _joined(self, pieces: Sequence[Any]) -> Any:
        return Tensor.cat(list(pieces), dim=self.dim)

    def _each(self, functions: Sequence[Callable[..., Any]], *given: Any) -> list[Any]:
        pieces = zip(functions, *map(self._taken, given), strict=True)
        return [function(*one) for function, *one in pieces]

    def _call(self, x: Any) -> Any:
        return self._joined(self._each(self.transforms, x))

    def _inverse(self, y: Any) -> Any:
        return self._joined(self._each([one._inverse for one in self.transforms], y))

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        slopes = self._each([one.log_abs_det_jacobian for one in self.transforms], x, y)
        axes = [one.event_dim for one in self.transforms]
        return self._joined(
            [summed(slope, max(axes) - own) for slope, own in zip(slopes, axes, strict=True)]
        )


class StackTransform(CatTransform):
    """One of the transforms `tseq` for each place along axis `dim`."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0):
        self.transforms, self.dim = list(tseq), dim
        self.domain, self.codomain = (
            C.stack([getattr(one, which) for one in tseq], dim) for which in ("domain", "codomain")
        )

    def _taken(self, x: Any) -> Any:
        return x.unbind(self.dim)

    def _joined(self, pieces: Sequence[Any]) -> Any:
        return Tensor.stack(list(pieces), self.dim)


identity_transform = ComposeTransform([])
identity_transform.__doc__ = """The transform that leaves everything as it is.

>>> torpor.distributions.identity_transform(Tensor([1.0])).tolist()
[1.0]
"""


__all__ = [
    "AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform",
    "CumulativeDistributionTransform", "ExpTransform", "IndependentTransform", "PowerTransform",
    "SigmoidTransform", "SoftplusTransform", "StackTransform", "TanhTransform", "Transform",
    "identity_transform",
]  # fmt: skip
