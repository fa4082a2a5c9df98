"""Where parameters and values belong, by PyTorch's names: `torpor.distributions.constraints`.

A row says what each asks of `x`; `support`, `arg_constraints`, what `validate_args` refuses and
the registries `biject_to` and `transform_to` all come from these.

>>> torpor.distributions.constraints.interval(0, 2).check(torpor.tensor([1.0, 3.0])).tolist()
[True, False]
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from torpor.base.errors import ValueRangeError
from torpor.graph import build
from torpor.ir.records import Requirement
from torpor.tensor import Tensor, as_tensor, linalg
from torpor.tensor.handle import derive
from torpor.tensor.host import read
from torpor.tensor.watch import is_watched

SUM: Final = 1e-6  # how far the sum of a simplex is from 1 at most
LARGE: Final = 1 << 16  # so many elements are asked by the kernel that reads them
SHOWN: Final = 6  # so many offenders are named


class Constraint:
    """A set of values: `check(value)` says of each event, which has `event_dim` axes, whether it
    lies in there.
    """

    is_discrete: Any = False
    event_dim: Any = 0
    names: ClassVar[tuple[str, ...]] = ()
    bounds: tuple[Any, ...] = ()
    asks: ClassVar[Callable[..., Any]]

    def holds(self, x: Any) -> Any:
        """`check` of an array of NumPy's, or of a tensor."""
        return type(self).asks(x, *self.bounds)

    def check(self, value: Any) -> Any:
        """Whether each event lies in there: bool, of the shape of `value` without its last
        `event_dim` axes.
        """
        return as_tensor(self.holds(as_tensor(value)))

    def __repr__(self) -> str:
        told = [f"{n}={_shown(b)}" for n, b in zip(self.names, self.bounds, strict=True)]
        return type(self).__name__ + (f"({', '.join(told)})" if told else "")

    def __reduce__(self) -> Any:
        if self.names or type(self) is Constraint:
            return super().__reduce__()
        return type(self).__name__  # there is one, of the name of its class


def _shown(bound: Any) -> str:
    array = known(bound)
    return f"a tensor of shape {bound.shape}" if array is None else str(array)


def kind(
    name: str, asks: Callable[..., Any], names: str = "", event_dim: int = 0, discrete: bool = False
) -> Any:
    """The class `name` of constraints: `asks` of x, and of the bounds of these names."""
    members: dict[str, Any] = {
        "asks": staticmethod(asks), "names": tuple(names.split()), "event_dim": event_dim,
        "is_discrete": discrete, "__module__": __name__, "__doc__": f"`{name}({names})`.",
        "__init__": _taking, "__signature__": inspect.Signature([
            inspect.Parameter(one, inspect.Parameter.POSITIONAL_OR_KEYWORD) for one in names.split()
        ]),
    }  # fmt: skip
    return type(name, (Constraint,), members)


def _taking(self: Constraint, *bounds: Any, **named: Any) -> None:
    given = inspect.signature(type(self)).bind(*bounds, **named)
    self.bounds = given.args
    vars(self).update(given.arguments)


def _whole(x: Any) -> Any:
    return x % 1 == 0


def _lower(x: Any) -> Any:
    return (x * (1 - np.tri(*x.shape[-2:], dtype=np.float32)) == 0).all(-1).all(-1)


def _cholesky(x: Any) -> Any:
    return _lower(x) & (x.diagonal(0, -2, -1) > 0).all(-1)


def _correlations(x: Any) -> Any:
    apart = abs((x * x).sum(-1) - 1)
    return _cholesky(x) & (apart < 1e-5 * x.shape[-1]).all(-1)


def _symmetric(x: Any) -> Any:
    return (abs(x - x.swapaxes(-2, -1)) < 1e-6).all(-1).all(-1)


def _eigenvalues(x: Any) -> Any:
    return np.linalg.eigvalsh(x) if isinstance(x, np.ndarray) else linalg.eigvalsh(x)


less_than = kind("less_than", lambda x, high: x < high, "upper_bound")
greater_than = kind("greater_than", lambda x, low: x > low, "lower_bound")
greater_than_eq = kind("greater_than_eq", lambda x, low: x >= low, "lower_bound")
interval = kind(
    "interval", lambda x, low, high: (x >= low) & (x <= high), "lower_bound upper_bound"
)
half_open_interval = kind(
    "half_open_interval", lambda x, low, high: (x >= low) & (x < high), "lower_bound upper_bound"
)
integer_interval = kind(
    "integer_interval", lambda x, low, high: _whole(x) & (x >= low) & (x <= high),
    "lower_bound upper_bound", discrete=True,
)  # fmt: skip
integer_greater_than = kind(
    "integer_greater_than", lambda x, low: _whole(x) & (x >= low), "lower_bound", discrete=True
)
multinomial = kind(
    "multinomial", lambda x, high: (_whole(x) & (x >= 0)).all(-1) & (x.sum(-1) <= high),
    "upper_bound", event_dim=1, discrete=True,
)  # fmt: skip
positive, nonnegative = greater_than(0.0), greater_than_eq(0.0)
unit_interval = interval(0.0, 1.0)
nonnegative_integer, positive_integer = integer_greater_than(0), integer_greater_than(1)
real = kind("real", lambda x: x == x)()
boolean = kind("boolean", lambda x: (x == 0) | (x == 1), discrete=True)()
one_hot = kind(
    "one_hot", lambda x: ((x == 0) | (x == 1)).all(-1) & (x.sum(-1) == 1), event_dim=1,
    discrete=True,
)()  # fmt: skip
simplex = kind("simplex", lambda x: (x >= 0).all(-1) & (abs(x.sum(-1) - 1) < SUM), event_dim=1)()
square = kind("square", lambda x: np.full(x.shape[:-2], x.shape[-2] == x.shape[-1]), event_dim=2)()
symmetric = kind("symmetric", _symmetric, event_dim=2)()
lower_triangular = kind("lower_triangular", _lower, event_dim=2)()
lower_cholesky = kind("lower_cholesky", _cholesky, event_dim=2)()
corr_cholesky = kind("corr_cholesky", _correlations, event_dim=2)()
positive_definite = kind(
    "positive_definite", lambda x: _symmetric(x) & (_eigenvalues(x) > 0).all(-1), event_dim=2
)()
positive_semidefinite = kind(
    "positive_semidefinite", lambda x: _symmetric(x) & (_eigenvalues(x) > -1e-6).all(-1),
    event_dim=2,
)()  # fmt: skip


class independent(Constraint):
    """`base_constraint` of whole events: its last `reinterpreted_batch_ndims` axes are theirs."""

    names = ("base_constraint", "reinterpreted_batch_ndims")

    def __init__(self, base_constraint: Any, reinterpreted_batch_ndims: int):
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        self.bounds = base_constraint, reinterpreted_batch_ndims
        self.is_discrete = base_constraint.is_discrete
        self.event_dim = base_constraint.event_dim + reinterpreted_batch_ndims

    def holds(self, x: Any) -> Any:
        """Whether all of an event's lie in there."""
        held = self.base_constraint.holds(x)
        for _ in range(self.reinterpreted_batch_ndims):
            held = held.all(-1)
        return held


real_vector = independent(real, 1)


class cat(Constraint):
    """One of the constraints `cseq` for each piece along axis `dim`, of `lengths` (1 each)."""

    names = ("cseq", "dim")

    def __init__(self, cseq: Sequence[Any], dim: int = 0, lengths: Sequence[int] | None = None):
        self.bounds = self.cseq, self.dim = list(cseq), dim
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        self.is_discrete = any(one.is_discrete for one in cseq)
        self.event_dim = max(one.event_dim for one in cseq)

    def holds(self, x: Any) -> Any:
        """Of each piece by its own constraint."""
        return Tensor.cat(self._of_each(as_tensor(x).split(self.lengths, self.dim)), dim=self.dim)

    def _of_each(self, pieces: Sequence[Any]) -> list[Any]:
        return [one.check(piece) for one, piece in zip(self.cseq, pieces, strict=True)]


class stack(cat):
    """One of the constraints `cseq` for each place along axis `dim`."""

    def __init__(self, cseq: Sequence[Any], dim: int = 0):
        super().__init__(cseq, dim)
        self.event_dim += dim < 0

    def holds(self, x: Any) -> Any:
        """Of each place by its own constraint."""
        return Tensor.stack(self._of_each(as_tensor(x).unbind(self.dim)), self.dim)


class MixtureSameFamilyConstraint(Constraint):
    """`base_constraint` of each component of a mixture, which are along its last axis."""

    names = ("base_constraint",)

    def __init__(self, base_constraint: Any):
        self.base_constraint, self.bounds = base_constraint, (base_constraint,)
        self.is_discrete = base_constraint.is_discrete
        self.event_dim = base_constraint.event_dim

    def holds(self, x: Any) -> Any:
        """Whether every component has x."""
        return self.base_constraint.check(as_tensor(x).unsqueeze(-1 - self.event_dim)).all(-1)


class _Dependent(Constraint):
    """Depends on other parameters: what it is, is known of a distribution only."""

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented):
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def holds(self, x: Any) -> Any:
        """Nobody knows."""
        raise ValueRangeError("the constraint depends on parameters: ask one of a distribution")


class dependent_property(property, _Dependent):
    """A property of distributions whose value is a constraint."""

    def __init__(
        self, fn: Any = None, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented
    ):
        property.__init__(self, fn)
        _Dependent.__init__(self, is_discrete=is_discrete, event_dim=event_dim)

    def __call__(self, fn: Any) -> dependent_property:
        return dependent_property(fn, is_discrete=self.is_discrete, event_dim=self.event_dim)


dependent = _Dependent()


def is_dependent(constraint: Any) -> bool:
    """Whether it depends on other parameters.

    >>> torpor.distributions.constraints.is_dependent(torpor.distributions.Uniform.support)
    True
    """
    return isinstance(constraint, _Dependent)


# --- what is asked of parameters and values -------------------------------------------------------
def known(value: Any) -> Any:
    """The elements, where the host has them or they are a few numbers; None where they would have
    to be computed, or are unknown in a jit.
    """
    if not isinstance(value, Tensor):
        return value
    if is_watched() or value.numel() > LARGE:
        return None
    return read(value._current())


def required(value: Tensor, what: str, constraint: Any) -> Tensor:
    """The value, if it satisfies the constraint; an error says which elements do not. Of one that
    is not known yet it is raised when what depends on it is realised, by the kernel that reads it;
    of matrices that are not known nothing is asked.
    """
    array, bounds = known(value), [known(bound) for bound in constraint.bounds]
    if array is None or any(bound is None for bound in bounds):
        if constraint.event_dim > 1:
            return value
        held = constraint.check(value)
        held = held.reshape(*held.shape, *[1] * (value.ndim - held.ndim))
        text = f"{what} must satisfy {constraint!r}"
        return derive(build.check, (value, held), Requirement("value", text))
    held = np.asarray(constraint.holds(array))
    if held.all():
        return value
    raise ValueRangeError(f"{what} must satisfy {constraint!r}; found {_offenders(array, held)}")


def _offenders(array: Any, held: Any) -> str:
    wrong = np.broadcast_to(array, np.broadcast_shapes(array.shape, held.shape + (1,) * (
        array.ndim - held.ndim)))[~held] if held.ndim else array[None]  # fmt: skip
    rest = len(wrong) - SHOWN
    told = ", ".join(str(one.tolist()) for one in wrong[:SHOWN])
    return f"{told} and {rest} more" if rest > 0 else told
