"""Functions with gradients that users write, and hooks that see gradients as they are taken."""

from __future__ import annotations

import functools
import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, Final

from torpor.base.errors import DTypeError, GradientError, ShapeError
from torpor.graph import build
from torpor.graph.gradient import watched
from torpor.graph.loop import CUSTOM
from torpor.ir.uop import UOp
from torpor.tensor.differentiate import (
    accumulate,
    accumulated,
    gathered,
    hooks_of_leaf,
    leaf_number,
    note_hooks,
)
from torpor.tensor.handle import Handle, derive, located, standing_for, with_rule
from torpor.tensor.inside import Inside
from torpor.tensor.mode import grad_enabled, no_grad
from torpor.tensor.watch import watcher
from torpor.tensor.write import as_it_is, write

Backward = Callable[..., Any]
# How a tensor that a Function keeps is packed and unpacked, by `saved_tensors_hooks`.
saving_hooks: Final[ContextVar[tuple[Backward, Backward] | None]] = ContextVar(
    "saved_tensors_hooks", default=None
)


class _Rule:
    """How the gradients of some tensors follow from those of others: `backward(*gradients)`. It is
    asked once for each time that gradients are taken.
    """

    def __init__(self, backward: Backward, given: Sequence[Any], made: Sequence[Any]):
        self._backward, self._made = backward, [(t.shape, t.dtype) for t in made]
        self._device = given[0]._storage.device
        self._given = [(t.shape, t.dtype) for t in given]

    def __call__(self, g: UOp) -> list[UOp | None]:
        found = self._backward(*_apart(standing_for(g, self._device, grad_enabled()), self._made))
        found = found if isinstance(found, tuple | list) else (found,)
        if len(found) != len(self._given):
            what = f"gradients of {len(self._given)} tensors are needed, not {len(found)}"
            raise GradientError(what)
        return [
            None if one is None else _fitting(one, shape).cast(dtype)._current()
            for one, (shape, dtype) in zip(found, self._given, strict=True)
        ]


def _apart(packed: Any, kinds: Sequence[tuple[Any, Any]]) -> Iterator[Any]:
    """The tensors of these shapes and formats that lie one after the other in a vector."""
    first = 0
    for shape, dtype in kinds:
        count = math.prod(shape)
        yield packed.narrow(0, first, count).reshape(shape).cast(dtype)
        first += count


def _as_gradient(given: Any) -> Any:
    """What users' code gave, if it may be a gradient."""
    if isinstance(given, Handle):
        return given
    raise DTypeError(f"a gradient is a tensor or None, not {given!r}")


def _fitting(given: Any, shape: Sequence[Any]) -> Any:
    """The gradient of a tensor of this shape: what was given for a shape that it broadcasts to is
    summed, as in PyTorch, and a number without axes is that of each element.
    """
    gradient = _as_gradient(given)
    if gradient.ndim in (0, len(shape)) and (gradient.ndim == 0 or gradient.shape == shape):
        return gradient.broadcast_to(shape)
    try:
        return gradient.sum_to_size(shape)
    except ShapeError:
        what = f"the gradient of a tensor {tuple(shape)} has its shape, not {gradient.shape}"
        raise located(ShapeError(what), (gradient,)) from None


class _Reached:
    """Notes the number of a result of which a gradient is taken."""

    def __init__(self, numbers: set[int], number: int):
        self._numbers, self._number = numbers, number

    def __call__(self, g: UOp) -> list[UOp | None]:
        self._numbers.add(self._number)
        return [g]


def ruled(
    backward: Backward, given: Sequence[Any], made: Sequence[Any], reached: set[int] | None = None
) -> list[Any]:
    """The tensors `made`, whose gradients `backward` turns into those of the tensors `given`.
    `reached` gets the numbers of those that have one, before `backward` is asked.
    """
    rule = _Rule(backward, given, made)
    wide = max((t.dtype for t in made), key=lambda dtype: dtype.itemsize)
    packed: Any = made[0].detach().cast(wide).reshape(-1)
    if len(made) > 1:
        packed = packed.cat(*[t.detach().cast(wide).reshape(-1) for t in made[1:]])
    packed = derive(_custom, (packed, *given), rule)
    parts = _apart(packed, rule._made)
    pairs = [(one.detach(), part) for one, part in zip(made, parts, strict=True)]
    if reached is None:
        return [with_rule(one, (part,), "same") for one, part in pairs]
    return [derive(_custom, pair, _Reached(reached, n)) for n, pair in enumerate(pairs)]


def _custom(value: UOp, *rest: Any) -> UOp:
    *operands, rule = rest
    return build.function(value, operands, CUSTOM, rule)


def between(tensors: Sequence[Any], hook: Backward) -> list[Any]:
    """The same tensors, whose gradients go through the hook, all together."""
    return ruled(hook, tensors, tensors)


class Context:
    """What `forward` leaves for `backward`."""

    def __init__(self) -> None:
        self.needs_input_grad: tuple[bool, ...] = ()
        self._saved: tuple[Any, ...] = ()
        self._unpack: Callable[[Any], Any] | None = None
        self._without: set[int] = set()
        self._dirty: set[int] = set()
        self._materialize = True

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors that were kept."""
        if self._unpack is None:
            return self._saved
        return tuple([one if one is None else self._unpack(one) for one in self._saved])

    def _keep(self, renewed: dict[int, Any]) -> None:
        """Keep what the results have become, as `saved_tensors_hooks` say."""
        self._saved = tuple(renewed.get(id(one), one) for one in self._saved)
        if (hooks := saving_hooks.get()) is not None:
            pack, self._unpack = hooks
            with no_grad():
                self._saved = tuple([one if one is None else pack(one) for one in self._saved])

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors, or None, which `saved_tensors` gives."""
        self._saved = tensors

    save_for_forward = save_for_backward

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Results through which no gradient flows."""
        self._without |= {id(tensor) for tensor in tensors}

    def mark_dirty(self, *tensors: Any) -> None:
        """Arguments that `forward` changes in place and gives back: the gradient goes to what they
        were.
        """
        self._dirty |= {id(tensor) for tensor in tensors}

    def set_materialize_grads(self, value: bool) -> None:
        """Whether the gradient of a result that is not used is zeros, or else None."""
        self._materialize = value


class Function:
    """Base of functions with a gradient of their own, as PyTorch has them: static methods
    `forward(ctx, *arguments)`, or `forward(*arguments)` beside
    `setup_context(ctx, inputs, output)`, and `backward(ctx, *gradients)`, which gives a gradient
    for each argument, None for what has none. Called as `TheFunction.apply(*arguments)`. Inside of
    `vmap` and where tangents are followed they do for all examples and both directions: a `vmap` or
    `jvp` that a class has is not asked.

    >>> class Clipped(Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 1
    ...     @staticmethod
    ...     def backward(ctx, gradient):
    ...         return gradient.clamp(-1, 1)
    >>> x = Tensor([3.0], requires_grad=True)
    >>> (Clipped.apply(x) * 5).sum().gradient(x)[0].item()
    1.0
    """

    @staticmethod
    def forward(*arguments: Any, **options: Any) -> Any:
        """The result."""
        raise NotImplementedError("a Function needs forward(ctx, *arguments)")

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """The gradients."""
        raise NotImplementedError("a Function needs backward(ctx, *gradients) for its gradient")

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> Any:
        """What is kept for `backward`, where `forward` does not get the context."""
        raise NotImplementedError

    @classmethod
    def apply(cls, *arguments: Any) -> Any:
        """The result, with the gradient that `backward` gives."""
        ctx, kind = Context(), vars(Function)["setup_context"]
        ctx.needs_input_grad = tuple(map(_is_smooth, arguments))
        before = [list(map(as_it_is, one._parts)) if _is_smooth(one) else [] for one in arguments]
        with no_grad():
            if cls.setup_context is kind.__func__:
                result = cls.forward(ctx, *arguments)
            else:
                result = cls.forward(*arguments)
                cls.setup_context(ctx, arguments, result)
        if not grad_enabled() or not any(map(_is_smooth, arguments)):
            return result
        return cls._with_rule(ctx, arguments, before, result)

    @classmethod
    def _with_rule(
        cls, ctx: Context, arguments: tuple[Any, ...], before: Sequence[Any], result: Any
    ) -> Any:
        single = isinstance(result, Handle)
        results = [result] if single else list(result)
        smooth = [
            number for number, one in enumerate(results)
            if _is_smooth(one) and id(one) not in ctx._without
        ]  # fmt: skip
        asked = [number for number, one in enumerate(arguments) if _is_smooth(one)]

        def backward(*gradients: Any) -> list[Any]:
            each = iter(gradients)
            known = {n: _joined(shapes[n], each) for n in smooth}
            if not ctx._materialize:
                known = {n: known[n] for n in dict.fromkeys(owners[place] for place in reached)}
                reached.clear()
            absent = [one.zeros_like() if ctx._materialize and isinstance(one, Handle) else None
                      for one in shapes]  # fmt: skip
            found = cls.backward(ctx, *[known.get(n, one) for n, one in enumerate(absent)])
            found = found if isinstance(found, tuple | list) else (found,)
            if len(found) < len(arguments) or any(x is not None for x in found[len(arguments) :]):
                what = f"{cls.__name__}.backward gives {len(found)} gradients"
                raise GradientError(f"{what} for {len(arguments)} arguments")
            return [part for n in asked for part in _parts_of(found[n], arguments[n])]

        shapes = [one.detach() if isinstance(one, Handle) else one for one in results]
        dirty = [id(one) in ctx._dirty for one in arguments]
        given = [p for n in asked for p in (before[n] if dirty[n] else arguments[n]._parts)]
        parts = [part for number in smooth for part in results[number]._parts]
        owners = [number for number in smooth for _ in results[number]._parts]
        reached: set[int] = set()
        noting = None if ctx._materialize else reached
        made = iter(ruled(backward, given, parts, noting) if smooth else [])
        renewed = {id(results[number]): _joined(results[number], made) for number in smooth}
        ctx._keep(renewed)
        for one in arguments:
            if id(one) in ctx._dirty and id(one) in renewed:
                write(one, renewed.pop(id(one)), of_itself=True)
        results = [renewed.get(id(one), one) for one in results]
        if single:
            return results[0]
        return type(result)(*results) if hasattr(result, "_fields") else type(result)(results)


def once_differentiable(backward: Backward) -> Backward:
    """For a `backward` whose gradients cannot be differentiated again: they depend on nothing.

    >>> class Doubled(torpor.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     @torpor.autograd.once_differentiable
    ...     def backward(ctx, gradient):
    ...         return gradient * 2
    """

    @functools.wraps(backward)
    def once(ctx: Any, *gradients: Any) -> Any:
        with no_grad():
            return backward(ctx, *gradients)

    return once


def _is_smooth(one: Any) -> bool:
    """Whether a gradient may be asked for an argument, now or by `gradient`."""
    return isinstance(one, Handle) and one._parts[0].dtype.is_float


def _joined(like: Any, parts: Iterator[Any]) -> Any:
    """The next of the parts as a tensor, complex where `like` is."""
    return like._of([next(parts) for _ in like._parts])


def _parts_of(gradient: Any, like: Any) -> Sequence[Any]:
    """A gradient for the parts of `like`: the real part of a complex one for a real tensor."""
    if gradient is None:
        return [None] * len(like._parts)
    return [*_as_gradient(gradient)._parts, None][: len(like._parts)]


# --- hooks ----------------------------------------------------------------------------------------
class Removable:
    """What registering a hook gives: `.remove()` takes it back, also at the end of a `with`. It
    has its place among those that are there, else is the last.
    """

    __slots__ = ("_hooks", "_hook")

    def __init__(self, hooks: list[Any], hook: Any, place: int | None = None):
        self._hooks, self._hook = hooks, hook
        hooks.insert(len(hooks) if place is None else place, hook)
        note_hooks()

    def remove(self) -> None:
        """Take the hook back."""
        self._hooks[:] = [one for one in self._hooks if one is not self._hook]
        note_hooks()

    def __enter__(self) -> Removable:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


class _Keeper:
    """A hook that keeps the gradient of a tensor, as long as that is there."""

    def __init__(self, tensor: Any):
        self.kept = weakref.ref(tensor)

    def __call__(self, gradient: Any) -> None:
        tensor = self.kept()
        if tensor is not None:
            accumulate(tensor, gradient)


def _is_keeper(on_nodes: Any) -> bool:
    return isinstance(getattr(on_nodes, "hook", None), _Keeper)


class Hooked(Handle):
    """Looking at gradients while they are taken."""

    __slots__ = ()

    def register_hook(self, hook: Callable[[Any], Any]) -> Removable:
        """Call `hook(gradient)` whenever the gradient for this tensor is taken; what it gives,
        unless None, is the gradient that goes on. `.remove()` of the result takes it back.

        >>> x = Tensor(3.0, requires_grad=True)
        >>> _ = x.register_hook(lambda gradient: gradient * 10)
        >>> (x * x).gradient(x)[0].item()
        60.0
        """
        if not self.requires_grad:
            raise located(GradientError("a hook needs a tensor that requires a gradient"), (self,))
        leaf = leaf_number(self) is not None  # which stays one where it is written to
        if not leaf and isinstance(watcher(), Inside):  # the gradient is a part of that of a loop
            return self._hooked_inside(hook)
        device, node = self._storage.device, self._current()

        def on_nodes(g: UOp) -> UOp:
            taken: Any = standing_for(g, device, grad_enabled())
            found = hook(taken)
            if found is not None and _as_gradient(found).shape != taken.shape:
                what = f"a hook gave a gradient {found.shape} for one {taken.shape}"
                raise located(ShapeError(what), (found,))
            return g if found is None else found._current()

        on_nodes.hook = hook
        hooks: list[Any] = hooks_of_leaf(self, gathered) if leaf else watched.setdefault(node, [])
        # What is kept is what the others made of it.
        after = 0 if isinstance(hook, _Keeper) else sum(map(_is_keeper, hooks))
        return Removable(hooks, on_nodes, len(hooks) - after)

    def _hooked_inside(self, hook: Callable[[Any], Any]) -> Removable:
        """A hook of a tensor that the step of a loop makes: what is made of it from now on."""
        hooks: list[Callable[[Any], Any]] = []

        def rule(gradient: Any) -> Any:
            for one in hooks:
                found = one(gradient)
                gradient = gradient if found is None else found
            return gradient

        (hooked,) = between([self], rule)
        write(self, hooked, of_itself=True)
        return Removable(hooks, hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Any], Any]) -> Removable:
        """Call `hook(leaf)` whenever `backward` has added to the `.grad` of this leaf."""
        return Removable(hooks_of_leaf(self, accumulated), lambda leaf: hook(leaf))

    def retain_grad(self) -> None:
        """Keep the gradient in `.grad` when `backward` is called, as leaves do: what all hooks
        made of it, whenever they were registered.
        """
        if leaf_number(self) is None and isinstance(watcher(), Inside):
            what = "a step of a loop keeps no gradient of what it makes; give it back instead"
            raise located(GradientError(what), (self,))
        if leaf_number(self) is None and not self.retains_grad:
            self.register_hook(_Keeper(self))

    @property
    def retains_grad(self) -> bool:
        """Whether `retain_grad` has been called; False of a leaf, which keeps its gradient anyway.

        >>> y = Tensor(3.0, requires_grad=True) * 2
        >>> y.retain_grad()
        >>> y.retains_grad
        True
        """
        keepers = filter(_is_keeper, watched.get(self._current(), ()))
        return any(one.hook.kept() is self for one in keepers)
