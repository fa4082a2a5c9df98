"""Gradients: for leaves (`backward`), for any tensors (`gradient`), and of functions."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from torpor.base.errors import DTypeError, GradientError, OutOfBoundsError, ShapeError
from torpor.base.phases import phase
from torpor.base.site import decode
from torpor.graph import build
from torpor.graph.bare import is_passed
from torpor.graph.gradient import gradient as graph_gradient
from torpor.graph.gradient import noted, watched
from torpor.ir.ops import MOVEMENT, Ops
from torpor.ir.uop import UOp
from torpor.tensor.annotated import Tensor
from torpor.tensor.creation import as_tensor, beside
from torpor.tensor.handle import Handle, located, make, view
from torpor.tensor.host import known_shape
from torpor.tensor.mode import anomaly, grad_enabled, held, set_grad_enabled
from torpor.tensor.path import RESTING, Step
from torpor.tensor.pending import note_detached, note_gradients, wait
from torpor.tensor.spelling import spelled
from torpor.tensor.storage import SEVERED, reads_computed, sources_lost
from torpor.tensor.tree import flat_tree, map_tree
from torpor.tensor.watch import active, watcher
from torpor.tensor.write import hand_over

_leaves: Final[weakref.WeakValueDictionary[int, Handle]] = weakref.WeakValueDictionary()
# Whose backward was called. Tensors are no keys: `==` of two computes.
_spent: Final[weakref.WeakValueDictionary[int, Handle]] = weakref.WeakValueDictionary()
# By leaf: what its gradient becomes before it is anybody's, by nodes; and what is called with the
# leaf after something was added to its gradient.
LeafHooks = dict[int, list[Callable[[Any], Any]]]
gathered: Final[LeafHooks] = {}
accumulated: Final[LeafHooks] = {}
hooks_now: Final[list[tuple[Any, ...]]] = [()]  # all of them, which traces of a jit look at


def make_leaf(tensor: Handle, collects: bool = True, identity: int | None = None) -> None:
    """Give the handle an identity, of its own if none is said, for which gradients can be asked;
    whether `backward` adds to its `.grad`, and goes no further.
    """
    node, identity = tensor._current(), build.identity() if identity is None else identity
    tensor._path = Step(tensor._path, "leaf", identity, node)
    tensor._node = UOp(Ops.LEAF, node.dtype, (node,), identity)
    if collects:
        _leaves[identity] = tensor


def leaf_number(tensor: Handle) -> int | None:
    """The identity of a leaf; None for any other tensor."""
    path = tensor._path
    return path.arg if path is not None and path.kind == "leaf" else None


def is_parameter(tensor: Handle) -> bool:
    """Whether it is a leaf that requires a gradient, or did."""
    path = tensor._parts[0]._path
    return path is not None and (path.kind == "leaf" or path.arg == RESTING)


def _before_rest(tensor: Handle) -> Step | None:
    """The path of a leaf that does not require a gradient now, and will be the same leaf again:
    graphs stay the same where a loop freezes parameters and lets them go. None of others.
    """
    path = tensor._path
    if path is None or path.arg != RESTING or path.previous is None:
        return None
    before = path.previous
    return before if before.kind == "leaf" and _leaves.get(before.arg) is tensor else None


def leaf_before(tensor: Handle) -> int | None:
    """The identity of a leaf, also of one that does not require a gradient now."""
    before = _before_rest(tensor)
    return leaf_number(tensor) if before is None else before.arg


def _leaf_nodes(root: UOp) -> dict[int, list[UOp]]:
    """The leaves below `root` through which gradients flow, by identity.

    One leaf can have several nodes: it was written to between uses.
    """
    found: dict[int, list[UOp]] = {}
    for node in root.toposort(is_passed):
        if node.op is Ops.LEAF:
            if node.arg == SEVERED:
                what = "no gradient flows back into a jitted function; take gradients inside it"
                raise GradientError(what)
            found.setdefault(node.arg, []).append(node)
    return found


def _is_cut_off(root: UOp, targets: Sequence[Handle], found: Sequence[UOp | None]) -> bool:
    """Whether a target may be without a gradient only because what was made of it is memory now."""
    lost = any(
        node is None and not target.requires_grad
        for target, node in zip(targets, found, strict=True)
    )
    is_memory = root.below(MOVEMENT).op is Ops.BUFFER  # nobody knows how it came about
    return (not any(found) and is_memory) or (lost and reads_computed(root))


def _nodes_of(target: Handle, leaves: dict[int, list[UOp]]) -> list[UOp]:
    """The nodes that stand for a tensor, of which gradients are asked."""
    number = leaf_number(target)
    return [target._current()] if number is None else leaves.get(number, [])


def _needs_values(node: UOp | None, seed: Handle | None) -> bool:
    """Whether a gradient is made of values of the graph, and not of numbers and its seed alone."""
    start = None if seed is None else seed._current()
    below = () if node is None else node.toposort(lambda n: n is not start)
    return any(n.op in (Ops.BUFFER, Ops.LEAF) and n is not start for n in below)


def hooks_of_leaf(leaf: Handle, hooks: LeafHooks) -> list[Callable[[Any], Any]]:
    """The hooks of a leaf among those `gathered` or `accumulated`."""
    number = leaf_number(leaf)
    if number is None:
        raise located(GradientError("only leaves have gradients that are added to"), (leaf,))
    return hooks.setdefault(number, [])


def note_hooks() -> None:
    """Write down which leaves that there are have hooks now, and which."""
    for hooks in (gathered, accumulated):
        for gone in [number for number in [*hooks] if number not in _leaves]:
            del hooks[gone]
    each = *gathered.items(), *accumulated.items()
    found = tuple([(number, *hooks) for number, hooks in each if hooks])
    if found != hooks_now[0]:
        hooks_now[0] = found


def accumulate(target: Any, made: Any) -> None:
    """Add to `.grad`, and call those who asked for that. Each of both is differentiable that was
    made to be.
    """
    kept = target.grad
    if kept is not None:
        kept, made = (one if one.requires_grad else one.detach() for one in (kept, made))
        with set_grad_enabled(True):
            made = kept + made
    put_gradient(target, made)
    if accumulated and (number := leaf_number(target)) is not None:
        for hook in tuple(accumulated.get(number, ())):
            hook(target)


def put_gradient(target: Any, made: Any) -> None:
    """Let `.grad` become `made`: in place, which whoever holds it or a part of it sees, but where
    it can be differentiated.
    """
    kept = target.grad
    if kept is None or kept.requires_grad or made.requires_grad:
        target.grad = made
    else:
        hand_over(kept, made)


def _seed(root: Handle, given: Any) -> UOp:
    if given is None:
        if any(size != 1 for size in known_shape(root.shape)):
            what = "a gradient starts from a tensor of one element; reduce it, or give gradient="
            raise located(GradientError(what), (root,))
        return build.constant(1, root.dtype, root.shape)
    seed = beside(given, root)
    if seed.shape != root.shape:
        raise located(ShapeError("gradient= must have the tensor's shape"), (root, seed))
    return build.cast(seed._current(), root.dtype)


def _gradients(
    root: Handle, groups: Sequence[list[UOp]], given: Any, called: bool = False
) -> list[UOp | None]:
    """For each group of nodes (that stand for one tensor), the sum of their gradients; `called`:
    see `graph.gradient`.
    """
    if not root.dtype.is_float:
        raise located(GradientError(f"{root.dtype} has no gradient"), (root,))
    flat = [node for group in groups for node in group]
    seed = _seed(root, given)
    with held(noted, [] if anomaly() else None) as looked_at:
        with phase("graph", "gradient"):
            made = graph_gradient(root._current(), flat, seed, called)
            found = dict(zip(flat, made, strict=True))
        _refuse_nan(root, looked_at or ())
    results = []
    for group in groups:
        parts = [part for node in group if (part := found[node]) is not None]
        total = parts[0] if parts else None
        for part in parts[1:]:
            assert total is not None, "there is a first part"
            total = build.elementwise(Ops.ADD, total, part)
        hooks = gathered.get(group[0].arg, ()) if group and group[0].op is Ops.LEAF else ()
        for hook in tuple(hooks) if total is not None else ():
            total = hook(total)
        results.append(total)
    return results


def _refuse_nan(root: Handle, steps: Sequence[tuple[UOp, UOp]]) -> None:
    """A `GradientError` for the first of the gradients, each of an operand of a node, with NaN."""
    alone = [step for step in steps if all(n.op is not Ops.SLOT for n in step[1].toposort())]
    flags: list[Any] = [make(part, root._storage.device).isnan().any() for _, part in alone]
    if flags:
        flags[0].realize(*flags[1:])
    for (node, _), flag in zip(alone, flags, strict=True):
        if flag.item():
            places = [f"\n  built at {decode(site)}" for site in node.origins[:1]]
            what = f"the gradient of {node.op.name} has a NaN that is not in what it is made of"
            raise GradientError(what + "".join(places))


def _needs_outside(value: Handle, inside: Iterable[Handle]) -> bool:
    """Whether a value depends on leaves with requires_grad=True other than those `inside`."""
    numbers = {leaf_number(part) for leaf in inside for part in leaf._parts}
    others = (
        _leaves.get(number) for number in _leaf_nodes(value._current()) if number not in numbers
    )
    return any(leaf is not None and leaf.requires_grad for leaf in others)


def depends_on(value: Handle, leaf: Handle) -> bool:
    """Whether a value is made of a leaf."""
    numbers = {leaf_number(part) for part in leaf._parts}
    return any(numbers & _leaf_nodes(part._current()).keys() for part in value._parts)


def released(tree: Any, inside: Iterable[Handle]) -> Any:
    """The same values, of which no gradient is asked for where only those `inside` ask for one."""
    inside = [*inside]

    def release(one: Any) -> Any:
        if not isinstance(one, Handle) or not one.requires_grad:
            return one
        if any(_needs_outside(part, inside) for part in one._parts):
            return one
        return one.by_parts(_let_go) if one.is_pair else _let_go(one)

    return map_tree(release, tree)


def _let_go(tensor: Any) -> Any:
    return make(tensor._current(), tensor._storage.device)


class Differentiate(Handle):
    """Gradients: graphs like any other, so that gradients of them can be taken."""

    __slots__ = ()

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Make it a leaf that gradients are asked for, or let go of that; itself. What let go of it
        and asks again is the leaf that it was. `GradientError` for formats other than floats, and
        for letting go of what is no leaf.
        """
        if not requires_grad:
            if self._path is not None and self._path.leaf:
                self._path = Step(self._path, "detach", RESTING, self._current())
                self._stamp -= 1
            elif self.requires_grad:
                raise located(GradientError("only a leaf can stop requiring a gradient"), (self,))
        elif not self.requires_grad:
            if not self.dtype.is_float:
                what = f"only floats can require a gradient, not {self.dtype}"
                raise located(GradientError(what), (self,))
            if (before := _before_rest(self)) is not None:
                self._path = before
                self._stamp -= 1
            else:
                make_leaf(self)
        return self  # type: ignore[return-value]

    def _require(self, asked: bool) -> None:
        self.requires_grad_(asked)

    requires_grad = Handle.requires_grad.setter(_require)  # `x.requires_grad = True`, as in PyTorch

    def detach(self) -> Tensor:
        """A view through which no gradient flows; writes to it are seen by this tensor."""
        made = view(self, "detach", None)  # also of what `gradient` may be asked about later
        note_detached(made)
        return made

    def backward(
        self, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
        inputs: Any = None,
    ) -> Tensor:  # fmt: skip
        """Add the gradient of this tensor to `.grad` of every leaf that it depends on and that is
        still held, or of each of the `inputs`; itself. A tensor of one element starts from 1,
        another one needs `gradient`, of its shape. With `create_graph` what is added can be
        differentiated again. `GradientError` if there is no leaf, and as in PyTorch where this
        tensor's backward was called before without `retain_graph` (by default `create_graph`) and
        the gradient needs values of the graph.

        >>> x = Tensor([1.0, 2.0], requires_grad=True)
        >>> _ = (x * x).sum().backward()
        >>> x.grad.tolist()
        [2.0, 4.0]
        """
        watching = watcher() if active else None
        if watching is not None:
            watching.differentiated(None)
        gradient = None if gradient is None else beside(gradient, self).cast(self.dtype)
        found = _leaf_nodes(self._current())
        if not self.requires_grad or not found:
            what = "backward() needs a tensor that depends on a leaf with requires_grad=True"
            raise located(GradientError(what), (self,))
        there = {number: leaf for number in found if (leaf := _leaves.get(number)) is not None}
        # Of leaves that nobody holds, those that hooks may lie before: all, if there are hooks.
        lost = [number for number in found if number not in there] if watched else []
        targets: list[Any] = [*there.values(), *[None] * len(lost)]
        groups = [found[number] for number in (*there, *lost)]
        if inputs is not None:
            given = [inputs] if isinstance(inputs, Handle) else list(inputs)
            if not given:
                raise located(GradientError("inputs of backward() are one tensor or more"), (self,))
            targets = [part for one in given for part in one._parts]
            groups = [_nodes_of(one, found) for one in targets]
        called = not (active or create_graph)
        with set_grad_enabled(create_graph):  # for hooks
            gradients = _gradients(self, groups, gradient, called)
            retain = create_graph if retain_graph is None else retain_graph
            self._spend(gradients, gradient, retain)
            pairs = zip(targets, gradients, strict=True)
            made = [(one, node) for one, node in pairs if one is not None and node is not None]
            for target, node in made:
                if watching is not None:
                    watching.differentiated(target)
                accumulate(target, make(node, target.device, create_graph, depth=1))
        note_gradients([one.grad for one, _ in made if one.grad is not None])
        wait(self._storage)
        return self  # type: ignore[return-value]

    def _spend(self, gradients: Sequence[UOp | None], seed: Any, retain: bool) -> None:
        """What goes through a graph for the second time needs it to have been kept."""
        again = _spent.get(id(self)) is self
        if again and any(_needs_values(gradient, seed) for gradient in gradients):
            what = "gradients of a tensor once more; say retain_graph=True the first time"
            raise located(GradientError(what), (self,))
        if not retain:
            _spent[id(self)] = self

    def gradient(self, *targets: Any, gradient: Any = None, materialize: bool = True) -> list[Any]:
        """The gradients for `targets`, each of its target's shape; zeros (None without
        `materialize`) for one that this does not depend on. This tensor has one element, or
        `gradient` has its shape. Through tensors that do not require a gradient it sees
        what has not been computed yet: `GradientError` where nothing leads back to a target
        because this tensor, or one that it is made of, has been computed.

        >>> x = Tensor(3.0, requires_grad=True)
        >>> (x * x).gradient(x)[0].item()
        6.0
        """
        wanted = list(targets[0]) if targets and not isinstance(targets[0], Handle) else targets
        if any(target.is_pair for target in wanted):
            parts = [part for target in wanted for part in target._parts]
            each = iter(self.gradient(*parts, gradient=gradient, materialize=materialize))
            return [target._of([next(each) for _ in target._parts]) for target in wanted]
        if active and (watching := watcher()) is not None:
            watching.differentiated(None)
        leaves = _leaf_nodes(self._current())
        groups = [_nodes_of(target, leaves) for target in wanted]
        if (lost := sources_lost(self._current())) and any(
            node.below(MOVEMENT) in lost for group in groups for node in group
        ):
            what = "gradient: a part of the long way to a target is computed already, and leads"
            raise located(
                GradientError(f"{what} nowhere; set its requires_grad=True before"), (self,)
            )
        found = _gradients(self, groups, gradient)
        if materialize and _is_cut_off(self._current(), wanted, found):
            what = "gradient: nothing leads back from computed tensors to targets that did not have"
            raise located(GradientError(f"{what} requires_grad=True before"), (self,))
        requires = self.requires_grad and grad_enabled()
        depth = self._storage.depth + 1
        made: list[Any] = [
            make(node, target.device, requires, depth=depth)
            if node is not None
            else target.detach().zeros_like()
            if materialize
            else None
            for target, node in zip(wanted, found, strict=True)
        ]
        note_gradients([one for one, node in zip(made, found, strict=True) if node is not None])
        return made


# --- functions ------------------------------------------------------------------------------------
def recorded(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of functions that takes gradients, also inside of `no_grad`: what it gives there
    has none.
    """

    @functools.wraps(function)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        if grad_enabled():
            return function(*arguments, **options)
        with set_grad_enabled(True):
            made = function(*arguments, **options)
        return map_tree(lambda one: one.detach() if isinstance(one, Handle) else one, made)

    return wrapped


@spelled
def value_and_grad(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives (value, gradient) of a function whose result is 0-d.

    argnums: for which arguments, one (the gradient has its structure) or several (a tuple).
    Arguments are tensors, or lists, tuples and dicts of them. has_aux: the function gives (result,
    anything), and so does the value. `DTypeError` for what is no function.
    """
    if not callable(function):
        what = "grad and value_and_grad take a function of tensors, as in grad(function)(x)"
        tip = "; for the gradient of a tensor write loss.gradient(x), or loss.backward() and x.grad"
        raise located(DTypeError(what + tip * isinstance(function, Handle)), (function,))

    @recorded
    @functools.wraps(function)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        given = list(arguments)
        for number in numbers:
            if not -len(given) <= number < len(given):
                raise OutOfBoundsError(f"argnums={argnums} of {len(given)} arguments")
            given[number] = map_tree(_fresh_leaf, given[number])
        result = function(*given, **options)
        value, aux = result if has_aux else (result, None)
        targets = [leaf for number in numbers for leaf in flat_tree(given[number])]
        if not isinstance(value, Handle):
            what = f"the function gives {type(value).__name__}: only a tensor has a gradient"
            raise DTypeError(what)
        gradients = value.gradient(*targets)
        value, aux, gradients = released([value, aux, gradients], targets)
        found = iter(gradients)
        trees = tuple(map_tree(lambda _: next(found), given[number]) for number in numbers)
        return ((value, aux) if has_aux else value), trees[0] if isinstance(argnums, int) else trees

    return wrapped


@spelled
def grad(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives the gradient of a function whose result is 0-d, with `argnums` as in
    `value_and_grad`; (gradient, anything) with `has_aux`.

    >>> torpor.grad(Tensor.square)(Tensor(3.0)).item()
    6.0
    """
    both = value_and_grad(function, argnums, has_aux)

    @functools.wraps(function)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        value, gradients = both(*arguments, **options)
        return (gradients, value[1]) if has_aux else gradients

    return wrapped


def _fresh_leaf(tensor: Any) -> Any:
    """The same value under a new identity, on which an outer gradient still depends."""
    if as_tensor(tensor).is_pair:
        return as_tensor(tensor).by_parts(_fresh_leaf)
    given = as_tensor(tensor)
    storage = given._storage
    made = make(given._current(), storage.device, given.requires_grad, depth=storage.depth)
    make_leaf(made, collects=False)
    return made
