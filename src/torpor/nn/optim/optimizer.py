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
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Final

from torpor.base.dtypes import DType
from torpor.base.errors import DTypeError, GradientError, ShapeError, StateError, ValueRangeError
from torpor.base.missing import did_you_mean
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
from torpor.nn.optim.groups import Group, Settings
from torpor.nn.optim.hooked import Hooked, with_hooks
from torpor.nn.optim.kept import Count, Kept, State, filled_like, fitting, share_counts
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
    # Of what is counted, 1 - number**step of the hyperparameter that is named.
    missing: ClassVar[Mapping[str, str]] = {}
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
        self._kept: dict[int, Kept] = {}
        for group in groups_of(bound.arguments["params"]):
            self.add_param_group(group)

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """More parameters: `{"params": [...], name: value, ...}`; what is not named is as in the
        other groups. Names of no option are kept, as a group's "name", but for near misses. Pairs
        of a name and a parameter (`named_parameters()`) leave the names in "param_names".
        """
        group = self._grouped(param_group, self.param_groups)
        self.param_groups.append(group)
        self._settings.append(group.settings)
        self._begin(group, group.settings.params)

    def _grouped(self, given: Any, others: Sequence[Mapping[str, Any]]) -> Group:
        """A group of what is given as one, beside these others."""
        if not isinstance(given, Mapping):
            raise DTypeError(f"a group is a dictionary with 'params', not {given!r}")
        options = parameters_of(self.defaults | dict(given))
        known = {*self.defaults, "params", "param_names", "initial_lr"}
        for name in options.keys() - known:
            if tip := did_you_mean(name, known):
                raise ValueRangeError(f"{type(self).__name__} has no option {name!r}{tip}")
        options["lr"] = a_number("lr", options["lr"])
        if not options["params"]:
            raise ShapeError(f"{type(self).__name__} got no parameters")
        check_apart(options["params"], others, "param_names" in options)
        own = {name: value for name, value in options.items() if name in known}
        self.check(own)
        return Group(Settings(own), options)

    def check(self, options: Mapping[str, Any]) -> None:
        """Refuse hyperparameters that make no sense."""
        for name, value in options.items():
            if name in _BELOW_ONE:
                within(name, value, 0, 1)
            elif {type(value), type(self.options.get(name))} & _NUMBERS and name not in _ANY_SIGN:
                within(name, value, 0)
        if "betas" in options:
            check_betas(options["betas"])

    def _begin(self, group: Group, parameters: Sequence[Tensor]) -> None:
        """Have parameters and what is kept of them computed, all together."""
        group.settings.widen(group)
        count, made = Count(group.settings, self.counted), list(parameters)
        for parameter in parameters:
            kept = Kept(parameter, self.initial(parameter, group), count)
            self._kept[id(parameter)] = kept
            made += kept.slots.values()
        if not is_watched():
            made[0].realize(*made[1:])

    def _begin_others(self) -> None:
        """Begin with groups and parameters that were put among the others since, or whose state
        has gone.
        """
        for place, given in enumerate(self.param_groups):
            if not isinstance(given, Group):
                before = [one for one in self.param_groups[:place] if isinstance(one, Group)]
                self.param_groups[place] = self._grouped(given, before)
        if [*map(id, self._settings)] != [id(group.settings) for group in self.param_groups]:
            self._settings = [group.settings for group in self.param_groups]
        for group in self.param_groups:
            if new := [one for one in group.settings.params if not self._has_kept(one)]:
                self._begin(group, new)
            for parameter in group.settings.params:
                if (kept := self._kept[id(parameter)]).is_new:
                    kept.check(self.initial(parameter, group))
        if not is_watched():
            for settings in self._settings:
                share_counts([self._kept[id(one)] for one in settings.params])

    def _has_kept(self, parameter: Tensor) -> bool:
        kept = self._kept.get(id(parameter))
        return kept is not None and kept.parameter is parameter

    def initial(self, parameter: Tensor, options: Mapping[str, Any]) -> dict[str, Tensor]:
        """What is kept of a parameter before its first step."""
        wanted = (name for name, by in self.kept.items() if by is None or options[by])
        return {name: filled_like(parameter) for name in wanted}

    def __getstate__(self) -> dict[str, Any]:
        """All of it; what is kept without identities, which copies of parameters do not have."""
        return {**vars(self), "_kept": [*vars(self).get("_kept", {}).values()]}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state, _kept={id(kept.parameter): kept for kept in state["_kept"]})

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
    def state(self) -> State:
        """What is kept, by parameter and name: a dictionary of dictionaries, which may be set."""
        return State(self)

    @state.setter
    def state(self, value: Mapping[Tensor, Mapping[str, Any]]) -> None:
        given = {**value}
        self.state.clear()
        self.state.update(given)

    def kept_parameters(self) -> list[Tensor]:
        """The parameters of which something is kept."""
        return [kept.parameter for kept in self._kept.values()]

    def kept_of(self, parameter: Tensor) -> Kept:
        """What is kept of a parameter; a `KeyError` for what is none."""
        if not self._has_kept(parameter) and any(one is parameter for one in self.params):
            self._begin_others()
        if not self._has_kept(parameter):
            raise KeyError(parameter)
        return self._kept[id(parameter)]

    def keep(self, parameter: Tensor, values: Mapping[str, Any]) -> None:
        """Have this kept of a parameter: what was kept of another one, or values by name."""
        if isinstance(values, Kept):
            self._kept[id(parameter)] = values.given_to(parameter)
        else:
            self._kept.pop(id(parameter), None)
            self.kept_of(parameter).update(values)

    def forget(self, parameter: Tensor) -> None:
        """Have what is kept of a parameter begin anew; a `KeyError` if nothing is."""
        if not self._has_kept(parameter):
            raise KeyError(parameter)
        del self._kept[id(parameter)]

    def tensors(self) -> list[Tensor]:
        """All that a step changes: parameters and what is kept."""
        self._begin_others()
        return self._changing()

    def _changing(self) -> list[Tensor]:
        kept = [self._kept[id(one)] for one in self.params]
        counts = {id(one.count): one.count for one in kept}
        counted = [one for count in counts.values() for one in count.values.values()]
        return [*self.params, *(one for own in kept for one in own.slots.values()), *counted]

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
        self._begin_others()
        if all(parameter.grad is None for parameter in self.params):
            return loss
        with restored_on_failure(self._changing()):
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
        return self._changing()

    def _step_once(self, settings: Settings, moving: Sequence[Tensor]) -> None:
        """A step of parameters of a group."""
        self._advance(settings, moving)
        alike = dict[tuple[int, int, int], list[Tensor]]()  # counted and kept alike
        # A value that several of them are goes through a step of each, one by one.
        met = Counter[tuple[int, Any]]()
        for parameter in moving:
            kept = self._kept[id(parameter)]
            node = parameter._parts[0]._current().below(UNSEEN)
            value = id(parameter._parts[0]._storage), node
            alike.setdefault((id(kept.count), len(kept.slots), met[value]), []).append(parameter)
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
        staying = [self._kept[id(one)] for one in settings.params if id(one) not in names]
        counts = [self._kept[name].count for name in names]
        ahead = {id(count): count for count in counts}
        apart = dict[int, Count]()
        for kept in staying:
            if (shared := id(kept.count)) in ahead:
                if shared not in apart:
                    apart[shared] = kept.count.copy()
                kept.count = apart[shared]
        for count in ahead.values():
            made = self.count(count.values, settings.rate, settings.numbers(settings.rate.dtype))
            for name, value in made.items():
                hand_over(count.values[name], value)

    def count(
        self, values: Mapping[str, Tensor], rate: Tensor, numbers: Mapping[str, Any]
    ) -> dict[str, Tensor]:
        """The counted numbers after one more step."""
        steps, dtype = values["step"] + 1, rate.dtype
        missing = {k: one_less_power(steps, dtype, numbers[v]) for k, v in self.missing.items()}
        return {"step": steps, **missing}

    def _update(self, settings: Settings, parameters: Sequence[Tensor]) -> None:
        """A step of parameters that have made the same number of them."""
        kept = [[one, *self._kept[id(one)].slots.values()] for one in parameters]
        counted = self._kept[id(parameters[0])].count.values.values()
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
        kept = {places[id(one)]: self._kept[id(one)].all() for one in self.params
                if self._has_kept(one)}  # fmt: skip
        return {"state": {k: v for k, v in kept.items() if v}, "param_groups": groups}

    @with_hooks
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over the state that `state_dict` of such an optimiser gave, here or in PyTorch, for
        as many parameters in the same order. Nothing is changed where it does not fit.
        """
        if not isinstance(state_dict, Mapping) or not {"param_groups", "state"} <= {*state_dict}:
            raise StateError("an optimiser's state has 'param_groups' and 'state'")
        groups, state = state_dict["param_groups"], state_dict["state"]
        self._begin_others()
        numbers = numbers_of(groups, self.param_groups)
        plans = [  # rates may come as tensors of one element
            {k: v.item() if hasattr(v, "item") else v for k, v in group.items() if k != "params"}
            for group in groups
        ]
        pairs = list(zip(self.param_groups, plans, strict=True))
        slots = {
            id(one): self._continued(one, {**group, **plan})
            for group, plan in pairs for one in group["params"]
        }  # fmt: skip
        loaded = {
            id(one): self._fitting(
                {**self._kept[id(one)].count.shown(), **slots[id(one)]}, state.get(number, {})
            )
            for one, number in zip(self.params, numbers, strict=True)
        }
        for one, number in zip(self.params, numbers, strict=True):
            self._kept[id(one)].take_others(state.get(number, {}), {*self.kept, *self.counted})
        for group, plan in pairs:
            group.update(plan)
        for settings in self._settings:
            self._load_counts(settings, loaded)
        with no_grad():
            for name, values in loaded.items():
                self._kept[name].slots, self._kept[name].own = slots[name], None
                for slot, tensor in slots[name].items():
                    tensor.assign(values.get(slot, tensor))
        self.params[0].realize(*self.tensors())

    def _continued(self, parameter: Tensor, options: Mapping[str, Any]) -> dict[str, Tensor]:
        """What is kept with these options: what there is, else as it begins."""
        wanted = self.initial(parameter, options)
        return {name: self._kept[id(parameter)].slots.get(name, wanted[name]) for name in wanted}

    def _fitting(self, own: Mapping[str, Tensor], values: Mapping[str, Any]) -> dict[str, Tensor]:
        given = {name: one for name in own if (one := values.get(name)) is not None}
        return {name: fitting(name, one, own[name]).contiguous() for name, one in given.items()}

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
            self._kept[id(parameter)].count = shared[key]

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


@repeated
def one_less_power(steps: Tensor, dtype: DType, base: float | Tensor) -> Tensor:
    """1 - base**steps: what is missing in means that began as zeros."""
    exponent = base.log() if isinstance(base, Tensor) else math.log(base) if base else -math.inf
    power: Tensor = steps.cast(dtype) * exponent
    return -power.expm1()
