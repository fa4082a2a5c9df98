"""The base of optimisers: groups of parameters, what is kept of each, and the step.

A step updates every parameter and all state in one realisation. Step counts and learning rates live
in tensors, so that no step compiles anything new. Steps are computed, and what optimisers remember
is kept, in float64 for parameters of that format and in float32 for all others: rates, decays and
squares are often too small for 16 bits.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Final

import numpy as np

from torpor.base.dtypes import DType, dtypes
from torpor.base.errors import DTypeError, GradientError, ShapeError, StateError, ValueRangeError
from torpor.base.missing import did_you_mean
from torpor.base.unseen import Unseen
from torpor.graph.bare import UNSEEN
from torpor.nn.optim.given import (
    a_number,
    by_number,
    check_apart,
    check_betas,
    groups_of,
    numbers_of,
    parameters_of,
)
from torpor.nn.optim.hooked import Hooked, with_hooks
from torpor.nn.optim.written import begin_written
from torpor.tensor import Tensor, enable_grad, no_grad
from torpor.tensor.gradients import clear_gradients, forget_gradients
from torpor.tensor.repeated import repeated
from torpor.tensor.spelling import bound_to, within
from torpor.tensor.watch import is_watched
from torpor.tensor.wide import wide_dtype
from torpor.tensor.write import hand_over, restored_on_failure

REQUIRED: Final = inspect.Parameter.empty  # in place of a default
_NUMBERS: Final = {int, float}
_BELOW_ONE: Final = frozenset({"alpha", "rho"})
_ANY_SIGN: Final = frozenset({"alpha_power", "beta2_decay", "dampening", "lambd", "t0"})
# Options of every optimiser; all but the first say how PyTorch runs steps, and nothing here.
_COMMON: Final = {
    "maximize": False, "foreach": None, "fused": None, "capturable": False,
    "differentiable": False,
}  # fmt: skip


def signature_of(
    options: Mapping[str, Any], named: Mapping[str, Any] = MappingProxyType({})
) -> inspect.Signature:
    """That of a constructor with these options and defaults, and others that are only given by
    name.
    """
    either, kind = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    taken = [inspect.Parameter(name, either, default=value) for name, value in options.items()]
    taken += [inspect.Parameter(name, kind, default=value) for name, value in named.items()]
    return inspect.Signature(taken)


class Settings:
    """What steps read of a group: parameters, numbers that stay as they were given, and in tensors
    the rate and the numbers that have been set since. Steps do not read the group itself, which a
    jitted step would be guarded by.
    """

    def __init__(self, options: Mapping[str, Any]):
        self.params: list[Tensor] = options["params"]
        named = (_parts(k, v) for k, v in options.items() if k not in ("params", "lr"))
        self.fixed = {key: part for parts in named for key, part in parts}
        self.rate, self.live = self.scalar(options["lr"]), dict[str, Tensor]()

    def scalar(self, value: float) -> Tensor:
        """A number beside the parameters, in the widest format of their steps."""
        wide = {wide_dtype(parameter.dtype) for parameter in self.params}
        dtype = dtypes.float64 if dtypes.float64 in wide else dtypes.float32
        return Tensor(value, dtype=dtype, device=self.params[0].device).realize()

    def change(self, key: str, value: Any) -> None:
        """Set a number where it lives; what is none, or was none, is written down again."""
        if type(value) not in (int, float) or type(self.fixed[key]) not in (int, float):
            self.fixed[key] = value
        elif key in self.live:
            self.live[key].assign(self.scalar(value))
        else:
            self.live[key] = self.scalar(value)

    def numbers(self, dtype: DType) -> dict[str, Any]:
        """The hyperparameters beside the rate, as rules take them."""
        live = {name: value.cast(dtype) for name, value in self.live.items()}
        return {name: v for name, v in (self.fixed | live).items() if name != "maximize"}


class Group(MutableMapping[str, Any]):
    """Parameters with their hyperparameters by name, which may be set at any time. `lr` is held in
    a tensor, and so is each other number from when it is set for the first time: setting it then
    compiles nothing, and reaches jitted steps.
    """

    def __init__(self, settings: Settings, options: Mapping[str, Any]):
        self._settings, self._unseen = settings, Unseen(options)

    def __getitem__(self, name: str) -> Any:
        return self._unseen.values[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if name == "params":
            raise ValueRangeError("a group keeps its parameters; see add_param_group")
        if name == "lr":
            value = a_number(name, value)
            self._settings.rate.assign(self._settings.scalar(value))
        elif name in self._unseen.values:
            before = dict(_parts(name, self._unseen.values[name]))
            for key, part in _parts(name, value):
                if key in self._settings.fixed and part != before[key]:
                    self._settings.change(key, part)
        self._unseen.values[name] = value

    def __delitem__(self, name: str) -> None:
        if name == "initial_lr":  # a schedule's, and not of the steps
            del self._unseen.values[name]
            return
        raise ValueRangeError(f"a group keeps its {name}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._unseen.values)

    def __len__(self) -> int:
        return len(self._unseen.values)

    def __repr__(self) -> str:
        return repr(self._unseen.values)

    def copy(self) -> dict[str, Any]:
        """A dictionary of it: setting its values changes no step."""
        return dict(self)


def _parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """A hyperparameter by its name, and each part of a tuple by its place."""
    if isinstance(value, tuple | list):
        yield from ((f"{name}_{place}", part) for place, part in enumerate(value))
    else:
        yield name, value


class Count:
    """Steps of parameters that have made the same number, and numbers that follow from it. Those
    whose names begin with an underscore are computed at each step, and not part of a saved state.
    """

    def __init__(self, settings: Settings, values: Mapping[str, float]):
        self.values = {name: settings.scalar(value) for name, value in values.items()}

    def copy(self, settings: Settings) -> Count:
        made = Count(settings, dict.fromkeys(self.values, 0.0))
        for name, value in self.values.items():
            made.values[name].assign(value)
        return made


class Optimizer(Hooked):
    """Base of optimisers. `params` are tensors (complex ones are trained as their two parts), or
    groups: dictionaries with `params` and hyperparameters of their own. A subclass says what it
    keeps and gives `rule`, a pure function `(value, gradient, rate, *kept, *counted,
    **hyperparameters)` of the parameter's next value and the next of what is kept, all in the
    format of steps; pairs such as `betas` come as `betas_0` and `betas_1`. One that is written as
    for PyTorch, `super().__init__(params, defaults)` and a `step`, is one too.
    """

    options: ClassVar[Mapping[str, Any]] = {"lr": 1e-3}  # with their defaults, in their order
    # Of each parameter, by PyTorch's names, each with the option without which it is not kept.
    kept: ClassVar[Mapping[str, str | None]] = {}
    counted: Mapping[str, float] = {}  # as steps begin: see `count`
    rule: ClassVar[Callable[..., Any]]
    _steps: ClassVar[Callable[..., tuple[Tensor, ...]]]
    __signature__: ClassVar[inspect.Signature]

    def __init_subclass__(cls) -> None:
        named = {name: value for name, value in _COMMON.items() if name not in cls.options}
        cls.__signature__ = signature_of({"params": REQUIRED, **cls.options}, named)
        if "rule" in cls.__dict__:
            cls._steps = staticmethod(repeated(functools.partial(_steps_by, cls.rule)))

    def __init__(self, *arguments: Any, **options: Any):
        defaults = arguments[1] if len(arguments) == 2 else options.get("defaults")
        if isinstance(defaults, Mapping) and self.options is Optimizer.options:
            begin_written(self, arguments[0] if arguments else options["params"], defaults)
            return
        bound = bound_to(self, self.__signature__, arguments, options)
        bound.apply_defaults()
        self.defaults = {k: v for k, v in bound.arguments.items() if k in self.options}
        self.defaults["maximize"] = bound.arguments["maximize"]
        if bound.arguments.get("differentiable"):
            raise GradientError("no gradient flows through steps; write them with torpor.func")
        self.param_groups: list[Group] = []
        self._settings: list[Settings] = []
        self._kept: dict[int, dict[str, Tensor]] = {}
        self._counts: dict[int, Count] = {}
        for group in groups_of(bound.arguments["params"]):
            self.add_param_group(group)

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """More parameters: `{"params": [...], name: value, ...}`; what is not named is as in the
        other groups. Names of no option are kept, as a group's "name", but for near misses. Pairs
        of a name and a parameter (`named_parameters()`) leave the names in "param_names".
        """
        if not isinstance(param_group, Mapping):
            raise DTypeError(f"a group is a dictionary with 'params', not {param_group!r}")
        options = parameters_of(self.defaults | dict(param_group))
        known = {*self.defaults, "params", "param_names", "initial_lr"}
        for name in options.keys() - known:
            if tip := did_you_mean(name, known):
                raise ValueRangeError(f"{type(self).__name__} has no option {name!r}{tip}")
        options["lr"] = a_number("lr", options["lr"])
        if not options["params"]:
            raise ShapeError(f"{type(self).__name__} got no parameters")
        check_apart(options["params"], self.param_groups, "param_names" in options)
        own = {name: value for name, value in options.items() if name in known}
        self.check(own)
        settings = Settings(own)
        self._settings.append(settings)
        self.param_groups.append(Group(settings, options))
        self._begin(settings, own)

    def check(self, options: Mapping[str, Any]) -> None:
        """Refuse hyperparameters that make no sense."""
        for name, value in options.items():
            if name in _BELOW_ONE:
                within(name, value, 0, 1)
            elif {type(value), type(self.options.get(name))} & _NUMBERS and name not in _ANY_SIGN:
                within(name, value, 0)
        if "betas" in options:
            check_betas(options["betas"])

    def _begin(self, settings: Settings, options: Mapping[str, Any]) -> None:
        """Have parameters and what is kept of them computed, all together."""
        count, made = Count(settings, self.counted), list(settings.params)
        for parameter in settings.params:
            self._kept[id(parameter)] = self.initial(parameter, options)
            self._counts[id(parameter)] = count
            made += self._kept[id(parameter)].values()
        made[0].realize(*made[1:])

    def initial(self, parameter: Tensor, options: Mapping[str, Any]) -> dict[str, Tensor]:
        """What is kept of a parameter before its first step."""
        wanted = (name for name, by in self.kept.items() if by is None or options[by])
        return {name: filled_like(parameter) for name in wanted}

    @property
    def params(self) -> list[Tensor]:
        """All parameters, one that a group has several times as often."""
        return [parameter for settings in self._settings for parameter in settings.params]

    @property
    def lr(self) -> float:
        """The learning rate of the first group; setting it sets that of all."""
        return float(self.param_groups[0]["lr"])

    @lr.setter
    def lr(self, value: float) -> None:
        for group in self.param_groups:
            group["lr"] = value

    @property
    def state(self) -> dict[Tensor, dict[str, Tensor]]:
        """What is kept, by parameter and name."""
        return {parameter: self._state_of(parameter) for parameter in self.params}

    def _state_of(self, parameter: Tensor) -> dict[str, Tensor]:
        counted = self._counts[id(parameter)].values
        shown = {name: value for name, value in counted.items() if not name.startswith("_")}
        return shown | self._kept[id(parameter)]

    def tensors(self) -> list[Tensor]:
        """All that a step changes: parameters and what is kept."""
        kept = [one for kept in self._kept.values() for one in kept.values()]
        counts = {id(count): count for count in self._counts.values()}
        counted = [one for count in counts.values() for one in count.values.values()]
        return [*self.params, *kept, *counted]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, or with `set_to_none=False` make zeros of them."""
        (forget_gradients if set_to_none else clear_gradients)(self.params)

    @with_hooks
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters by their gradients and realise them, and with them what waits: the
        losses that `backward` was called on, if they are still held, and running statistics of
        layers: so nothing is computed twice. In a jitted function all of it, and the gradients that
        it leaves behind, are computed together when it returns. Where that raises, parameters and
        state stay as they were. A `closure` computes the gradients and gives the loss, which is
        given back. Parameters without a gradient stay as they are.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        if all(parameter.grad is None for parameter in self.params):
            return loss
        with restored_on_failure(self.tensors()):
            changed = self.schedule_step()
            if not is_watched():
                changed[0].realize(*changed[1:])
        return loss

    def schedule_step(self) -> list[Tensor]:
        """Build the update without running it; gives everything that it changes."""
        with no_grad():
            for settings in self._settings:
                moving = [one for one in settings.params if one.grad is not None]
                while moving:  # more than once if the group has some of them several times
                    once = list({id(one): one for one in moving}.values())
                    left = Counter(map(id, moving)) - Counter(map(id, once))
                    moving = [one for one in once for _ in range(left[id(one)])]
                    self._step_once(settings, once)
        return self.tensors()

    def _step_once(self, settings: Settings, moving: Sequence[Tensor]) -> None:
        """A step of parameters of a group."""
        self._advance(settings, moving)
        alike = dict[tuple[int, int, int], list[Tensor]]()  # counted and kept alike
        # A value that several of them are goes through a step of each, one by one.
        met = Counter[tuple[int, Any]]()
        for parameter in moving:
            count, kept = self._counts[id(parameter)], self._kept[id(parameter)]
            node = parameter._parts[0]._current().below(UNSEEN)
            value = id(parameter._parts[0]._storage), node
            alike.setdefault((id(count), len(kept), met[value]), []).append(parameter)
            met[value] += 1
        for parameters in alike.values():
            self._update(settings, parameters)

    def _advance(self, settings: Settings, moving: Sequence[Tensor]) -> None:
        """Count the step of the parameters that make it. Those that stay behind keep a count of
        their own, which begins anew for those that never made one.
        """
        if not self.counted:
            return
        names = {id(parameter) for parameter in moving}
        staying = [one for one in settings.params if id(one) not in names]
        ahead = {id(self._counts[name]): self._counts[name] for name in names}
        apart = dict[int, Count]()
        for parameter in staying:
            count = self._counts[id(parameter)]
            if id(count) in ahead:
                if id(count) not in apart:
                    apart[id(count)] = count.copy(settings)
                self._counts[id(parameter)] = apart[id(count)]
        for count in ahead.values():
            made = self.count(count.values, settings.rate, settings.numbers(settings.rate.dtype))
            for name, value in made.items():
                hand_over(count.values[name], value)

    def count(
        self, values: Mapping[str, Tensor], rate: Tensor, numbers: Mapping[str, Any]
    ) -> dict[str, Tensor]:
        """The counted numbers after one more step."""
        return {"step": values["step"] + 1}

    def _update(self, settings: Settings, parameters: Sequence[Tensor]) -> None:
        """A step of parameters that have made the same number of them."""
        kept = [[one, *self._kept[id(one)].values()] for one in parameters]
        counted = self._counts[id(parameters[0])].values.values()
        given = [x for one, *rest in kept for x in (one, one.grad, *rest)]
        numbers = settings.fixed | settings.live
        many = len(parameters), len(counted)
        found = type(self)._steps(*many, settings.rate, *counted, *given, **numbers)
        for tensor, new in zip((one for rest in kept for one in rest), found, strict=True):
            hand_over(tensor, new)

    @with_hooks
    def state_dict(self) -> dict[str, Any]:
        """State by the parameters' numbers, and the groups, as PyTorch lays them out."""
        places, groups = by_number(self)
        state = {places[id(one)]: self._state_of(one) for one in self.params}
        return {"state": {k: v for k, v in state.items() if v}, "param_groups": groups}

    @with_hooks
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over the state that `state_dict` of such an optimiser gave, here or in PyTorch, for
        as many parameters in the same order. Nothing is changed where it does not fit.
        """
        if not isinstance(state_dict, Mapping) or not {"param_groups", "state"} <= {*state_dict}:
            raise StateError("an optimiser's state has 'param_groups' and 'state'")
        groups, state = state_dict["param_groups"], state_dict["state"]
        numbers = numbers_of(groups, self.param_groups)
        plans = [{k: _plain(v) for k, v in group.items() if k != "params"} for group in groups]
        pairs = list(zip(self.param_groups, plans, strict=True))
        kept = {
            id(one): self._continued(one, {**group, **plan})
            for group, plan in pairs for one in group["params"]
        }  # fmt: skip
        loaded = {
            id(one): self._fitting(self._state_of(one) | kept[id(one)], state.get(number, {}))
            for one, number in zip(self.params, numbers, strict=True)
        }
        self._kept.update(kept)
        for group, plan in pairs:
            group.update(plan)
        for settings in self._settings:
            self._load_counts(settings, loaded)
        with no_grad():
            for name, values in loaded.items():
                for slot, tensor in self._kept[name].items():
                    tensor.assign(values.get(slot, tensor))
        self.params[0].realize(*self.tensors())

    def _continued(self, parameter: Tensor, options: Mapping[str, Any]) -> dict[str, Tensor]:
        """What is kept with these options: what there is, else as it begins."""
        wanted = self.initial(parameter, options)
        return {name: self._kept[id(parameter)].get(name, wanted[name]) for name in wanted}

    def _fitting(self, own: Mapping[str, Tensor], values: Mapping[str, Any]) -> dict[str, Tensor]:
        found = {}
        for name, target in own.items():
            if values.get(name) is None:
                continue
            value = _detached(values[name])
            if name not in self.counted and tuple(value.shape) != tuple(target.shape):
                raise ShapeError(f"{name!r} has shape {target.shape}, not {value.shape}")
            made = value.reshape(target.shape).cast(target.dtype).to(target.device)
            found[name] = made.contiguous()
        return found

    def _load_counts(self, settings: Settings, loaded: Mapping[int, Mapping[str, Tensor]]) -> None:
        """One count for all parameters that made the same number of steps."""
        shared = dict[tuple[float, ...], Count]()
        for parameter in settings.params if self.counted else ():
            values = {
                name: float(loaded[id(parameter)][name].item())
                if name in loaded[id(parameter)] else before
                for name, before in self.counted.items()
            }  # fmt: skip
            key = tuple(values.values())
            if key not in shared:
                shared[key] = Count(settings, values)
            self._counts[id(parameter)] = shared[key]

    def __repr__(self) -> str:
        options = ({k: v for k, v in group.items() if k != "params"} for group in self.param_groups)
        inside = "; ".join(", ".join(f"{k}={v}" for k, v in group.items()) for group in options)
        return f"{type(self).__name__}({inside})"


def _steps_by(
    rule: Callable[..., Any], count: int, counted: int, rate: Tensor, *tensors: Tensor,
    maximize: bool, **numbers: Any,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The next value of each of `count` parameters and of what is kept of it, one after the other.
    `tensors`: the `counted` numbers; then of each its value, its gradient and what is kept.
    """
    each = (len(tensors) - counted) // count
    made: list[Tensor] = []
    for at in range(counted, len(tensors), each):
        value, gradient, *kept = tensors[at : at + each]
        wide = wide_dtype(value.dtype)
        gradient = gradient.cast(wide)
        scalars = [one.cast(wide) for one in (rate, *kept, *tensors[:counted])]
        live = {k: v.cast(wide) if isinstance(v, Tensor) else v for k, v in numbers.items()}
        result = rule(value.cast(wide), -gradient if maximize else gradient, *scalars, **live)
        stepped, *after = result if isinstance(result, tuple) else (result,)
        made += [stepped.cast(value.dtype), *after]
    return tuple(made)


def filled_like(parameter: Tensor, value: float = 0.0) -> Tensor:
    """Memory of the parameter's shape in the format of its steps."""
    dtype = wide_dtype(parameter.dtype)
    return Tensor.full(parameter.shape, value, dtype=dtype, device=parameter.device).contiguous()


@repeated
def one_less_power(steps: Tensor, dtype: DType, base: float | Tensor) -> Tensor:
    """1 - base**steps: what is missing in means that began as zeros."""
    exponent = base.log() if isinstance(base, Tensor) else math.log(base) if base else -math.inf
    power: Tensor = steps.cast(dtype) * exponent
    return -power.expm1()


def _plain(value: Any) -> Any:
    """A hyperparameter as a plain value: rates may come as tensors of one element."""
    return value.item() if hasattr(value, "item") else value


def _detached(value: Any) -> Tensor:
    alone = value.detach() if hasattr(value, "detach") else value
    return alone if isinstance(alone, Tensor) else Tensor(np.asarray(alone))
