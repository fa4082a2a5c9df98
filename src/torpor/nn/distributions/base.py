"""`Distribution`: what all have; and classes of them made of formulas.

Shapes are PyTorch's: a distribution is one of `batch_shape` independent ones, each of which gives
events of `event_shape`. Parameters and values that are outside of where they belong raise a
`ValueRangeError`, unless `validate_args` is False: at once where their elements are known, else
when something that depends on them is realised.
"""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Final

from torpor.base.errors import DTypeError, ValueRangeError
from torpor.nn.distributions import constraints
from torpor.nn.distributions.constraints import required
from torpor.tensor import Tensor, as_tensor, no_grad
from torpor.tensor.operands import sloped
from torpor.tensor.random import normal_numbers, open_uniform, random_words
from torpor.tensor.rejection import angles, gamma_numbers, gamma_slopes
from torpor.tensor.size import Size
from torpor.tensor.spelling import a_shape, bound_to

Shape = tuple[Any, ...]  # of known sizes
Formula = Callable[..., Any]
EPSILON: Final = 2.0**-23  # how far probabilities are kept from 0 and 1, as in PyTorch
MARKS: Final = {  # behind the name of a parameter
    "+": constraints.positive, "~": constraints.nonnegative, "#": constraints.nonnegative_integer,
}  # fmt: skip


def numbers(*given: Any) -> list[Tensor]:
    """Parameters as float tensors of one shape."""
    return list(Tensor.broadcast_tensors(*floats(*given)))


def floats(*given: Any) -> list[Tensor]:
    """Parameters as float tensors; numbers in the format of a float tensor among them."""
    for one in given:
        if not hasattr(one, "__float__"):
            raise DTypeError(f"a parameter of a distribution is a number or a tensor, not {one!r}")
    like = next((one for one in given if isinstance(one, Tensor) and one.dtype.is_float), None)
    options = {} if like is None else {"dtype": like.dtype, "device": like.device}
    made = [one if isinstance(one, Tensor) else as_tensor(float(one), **options) for one in given]
    return [one if one.dtype.is_float else one.float() for one in made]


class Noise:
    """Random numbers of a shape that formulas make draws of."""

    def __init__(self, shape: Shape, like: Tensor):
        self.shape, self.device, self.dtype = shape, like.device, like.dtype

    def uniform(self) -> Any:
        """Uniform in (0, 1)."""
        wide = "float64" if self.dtype.bits == 64 else "float32"
        kind: Any = as_tensor(0.0, dtype=wide).dtype
        return open_uniform(self.shape, self.device, kind, None).cast(self.dtype)

    def normal(self) -> Any:
        """Of mean 0 and variance 1."""
        return normal_numbers(self.shape, self.device, self.dtype, None)

    def gamma(self, concentration: Any) -> Any:
        """Gamma with rate 1, above 0; its gradient is that of the quantiles."""
        given = concentration.expand(self.shape)
        wide = given.detach().cast("float64")
        drawn = gamma_numbers(wide, random_words(self.shape, self.device, None))
        if not given.requires_grad:
            return drawn.cast(self.dtype)
        drawn = drawn.detach().contiguous()
        slopes = gamma_slopes(wide, drawn).cast(self.dtype)
        return sloped(drawn.cast(self.dtype), (given, slopes))

    def angle(self, concentration: Any, around: Any) -> Any:
        """Angles from -pi to pi, with density in proportion to exp(concentration cos(x -
        around)).
        """
        wide = concentration.detach().expand(self.shape).cast("float64")
        apart = angles(wide, random_words(self.shape, self.device, None)).cast(self.dtype)
        return (apart + around + math.pi).remainder(2 * math.pi) - math.pi


class Distribution:
    """Base of distributions. `sample(shape)` draws; `rsample` draws so that gradients flow to the
    parameters, where `has_rsample`; `log_prob`, `cdf`, `icdf` take values; `entropy()`, `mean`,
    `variance`, `stddev`, `mode`; `expand(batch_shape)`. `support` is the constraint of values,
    `arg_constraints` those of parameters, which are asked unless `validate_args` is False. A class
    of the user's has those two, calls this constructor behind setting its parameters, and says
    `rsample` (or `sample`) and `log_prob`.

    >>> class Point(torpor.distributions.Distribution):
    ...     arg_constraints = {"place": torpor.distributions.constraints.positive}
    ...     support = torpor.distributions.constraints.positive
    ...     def __init__(self, place, validate_args=None):
    ...         self.place = place
    ...         super().__init__(place.shape, validate_args=validate_args)
    ...     def rsample(self, sample_shape=()):
    ...         return self.place.expand((*sample_shape, *self.batch_shape))
    >>> Point(Tensor([1.0, 2.0])).sample((3,)).shape
    (3, 2)
    """

    _axes: ClassVar[Mapping[str, int]] = MappingProxyType({})  # of an event in each parameter
    has_rsample: Any = False
    has_enumerate_support: Any = False
    arg_constraints: Any = MappingProxyType({})
    support: Any = constraints.dependent
    _batch_shape: Shape = ()
    _event_shape: Shape = ()
    _validate_args: bool = __debug__

    def __init__(
        self, batch_shape: Sequence[int] = (), event_shape: Sequence[int] = (),
        validate_args: bool | None = None,
    ):  # fmt: skip
        self._batch_shape, self._event_shape = tuple(batch_shape), tuple(event_shape)
        self._validate(validate_args)
        for name in set(self.arg_constraints) & set(vars(self)):
            setattr(self, name, self._checked(name, vars(self)[name]))

    @property
    def batch_shape(self) -> Shape:
        """How many independent ones it is, along each axis."""
        return Size(self._batch_shape)

    @property
    def event_shape(self) -> Shape:
        """The shape of one draw."""
        return Size(self._event_shape)

    def _extended_shape(self, sample_shape: Sequence[int] = ()) -> Size:
        """The shape of draws; a class of the user's may call it."""
        return Size((*sample_shape, *self.batch_shape, *self.event_shape))

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """What `expand` of a class of the user's fills: an object on which no constructor ran."""
        return type(self).__new__(type(self)) if _instance is None else _instance

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether distributions that are made from now on, and not told, ask about their arguments.

        >>> torpor.distributions.Distribution.set_default_validate_args(True)
        """
        Distribution._validate_args = bool(value)

    def _validate(self, asked: bool | None) -> None:
        self._validate_args = Distribution._validate_args if asked is None else bool(asked)

    def _checked(self, name: str, value: Any) -> Any:
        """The value of this parameter, which is asked whether it satisfies its constraint."""
        constraint = self.arg_constraints.get(name)
        if isinstance(constraint, constraints.dependent_property):
            constraint = constraint.__get__(self)
        if not self._validate_args or constraint is None or constraints.is_dependent(constraint):
            return value
        return required(value, f"{name} of {type(self).__name__}", constraint)

    def _validate_sample(self, value: Tensor) -> Tensor:
        """The value, which is asked whether it lies in the support."""
        if not self._validate_args or constraints.is_dependent(self.support):
            return value
        shape = (*self.batch_shape, *self.event_shape)
        Tensor.broadcast_shapes(tuple(value.shape), shape)
        return required(value, f"a value of {type(self).__name__}", self.support)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of one event, along a new first axis, where there are finitely many; without
        `expand` the axes of the batch have length 1.
        """
        raise NotImplementedError(f"values of {type(self).__name__} cannot be counted")

    def _enumerated(self, values: Any, expand: bool) -> Tensor:
        """These, as `enumerate_support` gives them."""
        event = values.shape[1:]
        each = values.reshape(len(values), *[1] * len(self.batch_shape), *event)
        return each.expand((len(values), *self.batch_shape, *event)) if expand else each

    def _draw(self, shape: Shape) -> Tensor:
        if type(self).rsample is not Distribution.rsample:  # a class of the user's
            return self.rsample(shape)
        raise NotImplementedError(f"{type(self).__name__} does not draw")

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draws of shape (*sample_shape, *batch_shape, *event_shape), without a gradient."""
        with no_grad():
            return self._draw(a_shape((sample_shape,))).detach()

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draws that are functions of the parameters and of noise: gradients flow to these."""
        if not self.has_rsample:
            raise NotImplementedError(f"draws of {type(self).__name__} have no gradient")
        return self._draw(a_shape((sample_shape,)))

    def log_prob(self, value: Any) -> Tensor:
        """The logarithm of the probability, or density, of each event."""
        raise NotImplementedError(f"{type(self).__name__} has no log_prob")

    def entropy(self) -> Tensor:
        """The mean of -log_prob."""
        raise NotImplementedError(f"{type(self).__name__} has no entropy in closed form")

    @property
    def mean(self) -> Tensor:
        """The mean of draws."""
        raise NotImplementedError(f"{type(self).__name__} has no mean in closed form")

    @property
    def variance(self) -> Tensor:
        """The variance of draws."""
        raise NotImplementedError(f"{type(self).__name__} has no variance in closed form")

    @property
    def mode(self) -> Tensor:
        """The most probable value."""
        raise NotImplementedError(f"{type(self).__name__} has no mode in closed form")

    @property
    def param_shape(self) -> Shape:
        """That of `probs` and `logits`."""
        given: Any = self
        return tuple(given.logits.shape)

    @property
    def stddev(self) -> Tensor:
        """The square root of the variance."""
        return self.variance.sqrt()

    def perplexity(self) -> Tensor:
        """e to the power of the entropy."""
        return self.entropy().exp()

    def cdf(self, value: Any) -> Tensor:
        """The probability of draws up to the value."""
        raise NotImplementedError(f"{type(self).__name__} has no cdf in closed form")

    def icdf(self, value: Any) -> Tensor:
        """Up to where draws have this probability."""
        raise NotImplementedError(f"{type(self).__name__} has no icdf in closed form")

    def expand(self, batch_shape: Sequence[int]) -> Any:
        """The same, independently for each of a larger batch."""
        if not self._axes:
            raise NotImplementedError(f"{type(self).__name__} does not expand")
        made = copy.copy(self)
        made._spread(batch_shape, **{name: vars(self)[name] for name in self._axes})
        return made

    def _spread(self, batch: Sequence[Any], **parameters: Any) -> None:
        """Have these parameters, each for all of a batch."""
        self._batch_shape = tuple(batch)
        for name, value in parameters.items():
            own = value.shape[value.ndim - self._axes[name] :]
            setattr(self, name, value.expand((*batch, *own)))

    def _beside(self, value: Any, like: Tensor) -> Tensor:
        if not isinstance(value, Tensor):
            return as_tensor(value, dtype=like.dtype, device=like.device)
        return value if value.dtype.is_float else value.cast(like.dtype)

    def __repr__(self) -> str:
        given = {name: vars(self).get(name) for name in self.arg_constraints}
        if "probs" in given:  # which are the logits too
            given.pop("logits", None)
        shown = ", ".join(
            f"{name}: {value if value.numel() == 1 else tuple(value.shape)}"
            for name, value in given.items()
            if isinstance(value, Tensor)
        )
        shapes = f"batch_shape={self.batch_shape}, event_shape={self.event_shape}"
        return f"{type(self).__name__}({shown or shapes})"


class Family(Distribution):
    """Distributions of numbers that formulas describe: `formulas` of the parameters by their order,
    behind the value or the noise where there is one. Those of `by_probs` take probabilities in the
    place of logits.
    """

    names: ClassVar[tuple[str, ...]]
    formulas: ClassVar[Mapping[str, Formula]]
    by_probs: ClassVar[Sequence[str]]
    __signature__: ClassVar[inspect.Signature]

    def __init__(self, *arguments: Any, **options: Any):
        bound = bound_to(self, self.__signature__, arguments, options)
        bound.apply_defaults()
        given = dict(bound.arguments)
        self._validate(given.pop("validate_args"))
        if "logits" in self.names:
            self._choose(given)
        vars(self).update(zip(given, floats(*given.values()), strict=True))
        asked = [vars(self)[one] if one == "probs" else self._checked(one, vars(self)[one])
                 for one in given]  # fmt: skip
        self._fill(dict(zip(given, Tensor.broadcast_tensors(*asked), strict=True)))

    def _choose(self, given: dict[str, Any]) -> None:
        """Logits, and probabilities if these are given in their place."""
        probs, logits = given.pop("probs"), given.pop("logits")
        if (probs is None) is (logits is None):
            raise ValueRangeError(f"{type(self).__name__} takes either probs or logits")
        if logits is None:
            given["probs"] = chance = self._checked("probs", floats(probs)[0])
            logits = chance.clamp(EPSILON, 1 - EPSILON).logit()
        given["logits"] = logits

    def _fill(self, parameters: dict[str, Tensor]) -> None:
        if "logits" in parameters:
            parameters.setdefault("probs", parameters["logits"].sigmoid())
        self._parameters = [parameters[name] for name in self.names]
        for name, value in parameters.items():
            setattr(self, name, value)
        self._batch_shape = tuple(self._parameters[0].shape)

    def expand(self, batch_shape: Sequence[int]) -> Any:
        made = copy.copy(self)
        names = [*self.names, *(["probs"] if "logits" in self.names else [])]
        made._fill({name: vars(self)[name].expand(tuple(batch_shape)) for name in names})
        return made

    def _draw(self, shape: Shape) -> Tensor:
        noise = Noise((*shape, *self.batch_shape), self._parameters[0])
        if "draw" in self.formulas:
            return self._of("draw", noise)
        return self._of("icdf", noise.uniform())

    def _of(self, what: str, *values: Any) -> Tensor:
        formula = self.formulas.get(what)
        if formula is None:
            raise NotImplementedError(f"{type(self).__name__} has no {what} in closed form")
        if what in self.by_probs:
            return formula(*values, *self._parameters[:-1], vars(self)["probs"])
        return formula(*values, *self._parameters)

    def log_prob(self, value: Any) -> Tensor:
        return self._of("log_prob", self._asked(value))

    def cdf(self, value: Any) -> Tensor:
        return self._of("cdf", self._asked(value))

    def _asked(self, value: Any) -> Tensor:
        return self._validate_sample(self._beside(value, self._parameters[0]))

    def icdf(self, value: Any) -> Tensor:
        return self._of("icdf", self._beside(value, self._parameters[0]))

    def entropy(self) -> Tensor:
        return self._of("entropy")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._enumerated(self._of("values"), expand)

    mean = property(lambda self: self._of("mean"))
    variance = property(lambda self: self._of("variance"))
    mode = property(lambda self: self._of("mode"))


class ExponentialFamily(Distribution):
    """Base of distributions with density h(x) exp(t(x) . eta - A(eta)): classes of users give the
    natural parameters eta (`_natural_params`), A (`_log_normalizer`) and the mean of log h(x)
    (`_mean_carrier_measure`); the entropy follows.
    """

    _natural_params: Any
    _mean_carrier_measure: Any = 0

    def _log_normalizer(self, *natural_params: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not give its normaliser")

    def entropy(self) -> Any:
        given = [one.detach().requires_grad_() for one in self._natural_params]
        whole = self._log_normalizer(*given)
        slopes = whole.sum().gradient(*given)
        own = tuple(range(-len(self.event_shape), 0))
        for one, slope in zip(given, slopes, strict=True):
            whole = whole - ((one * slope).sum(own) if own else one * slope)
        return whole - self._mean_carrier_measure


_EXPONENTIAL: Final = """
    Bernoulli Beta Chi2 ContinuousBernoulli Exponential Gamma Normal Poisson
"""


def family(
    name: str, about: str, parameters: str, support: Any,
    asked: Mapping[str, Any] | None = None, by_probs: Sequence[str] = (), **formulas: Any,
) -> Any:  # fmt: skip
    """The class `name`. `parameters` are in order: `scale+` is above 0, `rate~` is not below,
    `total_count#` a count, `df=1` has a default; `logits` may be given as `probs`. A support that
    depends on parameters is a function of the distribution; `asked` are further constraints;
    formulas of `by_probs` take `probs` in the place of `logits`.
    """
    constrained: dict[str, Any] = {}
    taken, names = [], []
    for word in parameters.split():
        text, _, default = word.partition("=")
        known = text.rstrip("+#~")
        names.append(known)
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        each = ("probs", "logits") if known == "logits" else (known,)
        constrained |= dict.fromkeys(each, MARKS.get(text[-1], constraints.real))
        value: Any = None if known == "logits" else inspect.Parameter.empty
        value = float(default) if default else value
        taken += [inspect.Parameter(one, kind, default=value) for one in each]
    constrained |= {"probs": constraints.unit_interval} if "logits" in names else {}
    taken.append(inspect.Parameter("validate_args", kind, default=None))
    fixed = isinstance(support, constraints.Constraint)
    members = {
        "names": tuple(names), "arg_constraints": constrained | dict(asked or {}),
        "support": support if fixed else constraints.dependent_property(support),
        "formulas": formulas, "by_probs": by_probs, "has_enumerate_support": "values" in formulas,
        "has_rsample": "draw" not in formulas or formulas.pop("smooth", False),
        "__signature__": inspect.Signature(taken), "__doc__": about,
        "__module__": "torpor.nn.distributions",
    }  # fmt: skip
    also = (ExponentialFamily,) if name in _EXPONENTIAL.split() else ()
    return type(name, (Family, *also), members)
