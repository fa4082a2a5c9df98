"""Functions made of functions: products with Jacobians, Jacobians, and a function of many rows."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torpor.base.errors import DTypeError, GradientError, ShapeError, ValueRangeError
from torpor.graph.bare import following_tangents
from torpor.tensor.creation import as_tensor
from torpor.tensor.differentiate import _fresh_leaf, grad, recorded, released, value_and_grad
from torpor.tensor.gradients import grad as gradients_of
from torpor.tensor.handle import Handle, located
from torpor.tensor.inside import Example
from torpor.tensor.looping import filled, leaves_of, scanned, structure
from torpor.tensor.mode import carrying_tangents, held
from torpor.tensor.random import state_of
from torpor.tensor.spelling import among, spell
from torpor.tensor.tree import flat_tree, map_tree
from torpor.tensor.write import as_it_is

__all__ = ["grad", "hessian", "jacfwd", "jacrev", "jvp", "value_and_grad", "vjp", "vmap"]

Pull = Callable[[list[Any]], Sequence[Any]]


@recorded
def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """(outputs, vjp_fn) of `f(*primals)`: `vjp_fn(cotangents)` gives a tuple, for each primal the
    cotangents times the Jacobian. All may be tensors, or lists, tuples and dicts of them. With
    has_aux `f` gives (outputs, anything), and that comes third.

    >>> y, pull = torpor.vjp(Tensor.exp, Tensor([0.0, 0.0]))
    >>> pull(Tensor([1.0, 2.0]))[0].tolist()
    [1.0, 2.0]
    """
    inputs, made, aux = _followed(f, primals, has_aux)
    pull = _pull(parts_in(made), parts_in(inputs))

    @recorded
    def vjp_fn(cotangents: Any) -> Any:
        given = pull(directions("vjp", "cotangents", made, cotangents))
        return released(filled(inputs, iter(given)), parts_in(inputs))

    outputs, aux = released((made, aux), parts_in(inputs))
    return (outputs, vjp_fn, aux) if has_aux else (outputs, vjp_fn)


@recorded
def jvp(
    f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> tuple[Any, ...]:
    """(outputs, their tangents) of `f(*primals)`: how the outputs change when the primals change by
    their tangents, of the same structure. With has_aux `f` gives (outputs, anything), and that
    comes third.

    >>> y, change = torpor.jvp(Tensor.square, (Tensor(3.0),), (Tensor(1.0),))
    >>> y.item(), change.item()
    (9.0, 6.0)
    """
    for what, one in (("primals", primals), ("tangents", tangents)):
        if not isinstance(one, tuple | list):
            raise DTypeError(f"jvp's {what} are a tuple, one for each argument, not {one!r}")
    inputs, made, aux = _followed(carrying_tangents()(f), tuple(primals), has_aux)
    given = directions("jvp", "tangents", inputs, tuple(tangents))
    change = filled(made, iter(pushed(parts_in(made), parts_in(inputs))(given)))
    made, change, aux = released((made, change, aux), parts_in(inputs))
    return (made, change, aux) if has_aux else (made, change)


def jacrev(
    f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives the Jacobian of `f` for the argument (or a tuple, for several): for
    each output and input a tensor[*output, *input]; the outputs' structure with the inputs' in it.
    A gradient of each output's element: for more inputs than outputs. With has_aux `f` gives
    (outputs, anything), and the Jacobian's function (Jacobian, anything).

    >>> torpor.jacrev(Tensor.square)(Tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """

    def blocks(outs: list[Any], ins: list[Any]) -> list[list[Any]]:
        pull, table = _pull(outs, ins), []
        for number, rows in enumerate(_bases(outs)):
            found = vmap(_at(pull, outs, number))(rows)
            shape = outs[number].shape
            table.append([b.reshape(*shape, *i.shape) for b, i in zip(found, ins, strict=True)])
        return table

    return _jacobian(f, argnums, has_aux, blocks)


def jacfwd(
    f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False,
    *, randomness: str = "same",
) -> Callable[..., Any]:  # fmt: skip
    """As `jacrev`, by the change along each input's element: for more outputs than inputs. `f` runs
    once, so that what it draws is the same for all of them; with the `randomness` "error" it is a
    `ValueRangeError`.

    >>> torpor.jacfwd(Tensor.square)(Tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """

    def blocks(outs: list[Any], ins: list[Any]) -> list[list[Any]]:
        push, columns = pushed(outs, ins), []
        for number, rows in enumerate(_bases(ins)):
            found = vmap(_at(push, ins, number), out_dims=-1)(rows)
            shape = ins[number].shape
            columns.append([b.reshape(*o.shape, *shape) for b, o in zip(found, outs, strict=True)])
        return [list(row) for row in zip(*columns, strict=True)]

    among("jacfwd's randomness", randomness, "different", "same", "error")
    drawn = _without_draws(f) if randomness == "error" else f
    return _jacobian(carrying_tangents()(drawn), argnums, has_aux, blocks)


def hessian(f: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """A function that gives the second derivatives of `f`: `jacfwd(jacrev(f))`.

    >>> torpor.hessian(lambda x: (x**3).sum())(Tensor([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    return jacfwd(jacrev(f, argnums), argnums)


def vmap(
    f: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "different"
) -> Callable[..., Any]:
    """A function that gives what `f` gives for each of many examples, which lie along the axes
    `in_dims` of the arguments: one for all, or one an argument, or trees of them; None where an
    argument is the same for all, and stays what it is, as those given by name do. The results lie
    along `out_dims`, None for one that is the same for all. `f` runs once, on tensors that stand
    for any example. What it draws is "different" for each, the "same" for all, or an "error", by
    `randomness`. A `ShapeError` where the axes' sizes differ.

    >>> torpor.vmap(Tensor.dot)(Tensor([[1, 2], [3, 4]]), Tensor([[1, 1], [2, 2]])).tolist()
    [3, 14]
    """
    among("vmap's randomness", randomness, "different", "same", "error")

    @functools.wraps(f)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        places = _spread(in_dims, arguments)
        leaves = [
            leaf if place is None else as_tensor(leaf)
            for (_, leaf), place in zip(leaves_of(arguments), places, strict=True)
        ]
        if all(place is None for place in places):
            raise ShapeError(
                "vmap: at least one argument needs an axis that its examples lie along"
            )
        rows = _rows(leaves, places)

        written: list[int] = []
        mapped: list[bool] = []

        def step(carry: Any, row: list[Any]) -> tuple[Any, Any]:
            mine, before = iter(row), list(map(_values, row))
            each = zip(leaves, places, strict=True)
            given = (leaf if place is None else next(mine) for leaf, place in each)
            made = f(*filled(arguments, given), **options)
            whole = isinstance(out_dims, int)
            mapped[:] = [whole or is_made_of(one, row) for one in parts_in(made)]
            written[:] = [n for n, one in enumerate(row) if _values(one) != before[n]]
            return carry, (made, [row[number].clone() for number in written])

        def alike(carry: Any, row: list[Any]) -> tuple[Any, Any]:
            with Example(randomness == "same").watching():
                return step(carry, row)

        by = step if randomness == "different" else alike
        made, last = scanned("vmap", by, None, rows)[1]
        for number, value in zip(written, last, strict=True):
            rows[number].copy_(value)
        return _laid_along(made, _spread(out_dims, made), mapped)

    return wrapped


def _rows(leaves: Sequence[Any], places: Sequence[int | None]) -> list[Any]:
    """The tensors that have examples, which lie along their first axis then, as many in each."""
    found = []
    for leaf, place in zip(leaves, places, strict=True):
        if place is not None and not -leaf.ndim <= place < leaf.ndim:
            what = f"vmap: examples cannot lie along axis {place} of a tensor {leaf.shape}"
            raise located(ShapeError(what), (leaf,))
        if place is not None:
            found.append(leaf.movedim(place, 0))
    counts = list(dict.fromkeys(one.shape[0] for one in found))
    if len(counts) > 1:
        what = f"vmap: some arguments have {counts[0]} examples, others {counts[1]}"
        raise located(ShapeError(what), found)
    return found


def _laid_along(made: Any, ends: Sequence[int | None], mapped: Sequence[bool]) -> Any:
    """Results of all examples along their axes; the first of what is the same for all."""
    if any(one and end is None for one, end in zip(mapped, ends, strict=True)):
        what = "vmap: out_dims needs an axis for each result that is another for each example"
        raise ShapeError(what)
    moved = zip(parts_in(made), ends, strict=True)
    return filled(made, (one[0] if end is None else one.movedim(0, end) for one, end in moved))


def _without_draws(f: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which must not draw random numbers."""

    @functools.wraps(f)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        before = state_of(None)
        made = f(*arguments, **options)
        if state_of(None) != before:
            raise ValueRangeError("jacfwd: random numbers are drawn; say randomness='same'")
        return made

    return wrapped


def is_made_of(value: Any, rows: Sequence[Any]) -> bool:
    """Whether a value depends on one of the rows."""
    nodes = {part._current() for row in rows for part in row._parts}
    return any(not nodes.isdisjoint(one._current().toposort()) for one in as_tensor(value)._parts)


def _values(one: Any) -> list[Any]:
    """The node of a tensor's storage, or of both of its parts: others once it is written to."""
    return [part._storage.base for part in one._parts]


# --- what they share ------------------------------------------------------------------------------
def _followed(f: Callable[..., Any], primals: Any, has_aux: bool) -> tuple[Any, Any, Any]:
    """The primals as leaves of their own, what `f` gives for them, and what it gives beside."""
    inputs = map_tree(followed, primals)
    result = f(*map_tree(as_it_is, inputs))
    made, aux = result if has_aux else (result, None)
    return inputs, map_tree(as_tensor, made), aux


def followed(value: Any) -> Any:
    """A value as a leaf of its own, for which derivatives are asked."""
    tensor = as_tensor(value)
    if not all(part.dtype.is_float for part in parts_in(tensor)):
        what = f"only floats have derivatives, not {tensor.dtype}"
        raise located(GradientError(what), (tensor,))
    return _fresh_leaf(tensor)


def parts_in(tree: Any) -> list[Any]:
    return [leaf for _, leaf in leaves_of(tree)]


def directions(what: str, name: str, like: Any, given: Any) -> list[Any]:
    """The parts of a tree of directions, which must be like the tree of what changes."""
    given = map_tree(as_tensor, given)
    if structure(given) != structure(like):
        raise ShapeError(f"{what}: the {name} have another structure than what they belong to")
    parts = parts_in(given)
    for part, (where, leaf) in zip(parts, leaves_of(like), strict=True):
        if part.shape != leaf.shape:
            shapes = f"{part.shape}, not {leaf.shape}"
            raise located(ShapeError(f"{what}: {name}{where} has the shape {shapes}"), (part,))
    return parts


def _pull(outs: list[Any], ins: list[Any]) -> Pull:
    """Cotangents of the outputs -> those of the inputs; none come from outputs without floats."""

    def pull(cotangents: list[Any]) -> Sequence[Any]:
        flowing = [(out, g) for out, g in zip(outs, cotangents, strict=True) if out.dtype.is_float]
        roots, seeds = [out for out, _ in flowing], [g for _, g in flowing]
        return gradients_of(roots, ins, seeds, create_graph=True, materialize_grads=True)

    return pull


def pushed(outs: list[Any], ins: list[Any]) -> Pull:
    """Tangents of the inputs -> those of the outputs. A gradient is linear in its seeds u: the
    derivative for u of the sum of gradient(u) * tangent is what the tangents do to the outputs.
    """
    seeds = [_fresh_leaf(out.detach().zeros_like()) for out in outs]
    with through_no_grad():
        pulled = _pull(outs, ins)(seeds)

    def push(tangents: list[Any]) -> Sequence[Any]:
        products = [(g * t.cast(g.dtype)).sum() for g, t in zip(pulled, tangents, strict=True)]
        return gradients_of(products, seeds, create_graph=True, materialize_grads=True)

    return push


def through_no_grad() -> Any:
    """Inside, what is computed under `no_grad` depends on what it is made of."""
    return held(following_tangents, True)


def _bases(tensors: list[Any]) -> Iterator[Any]:
    """For each tensor, tensors of its shape with a one at one place, for all places."""
    for tensor in tensors:
        count, options = tensor.numel(), {"dtype": tensor.dtype, "device": tensor.device}
        yield Handle._type.eye(count, **options).reshape(count, *tensor.shape)


def _at(linear: Pull, tensors: list[Any], number: int) -> Callable[[Any], Sequence[Any]]:
    """A linear function as one of the direction of one tensor, zero for the others."""
    zeros = [tensor.detach().zeros_like() for tensor in tensors]
    return lambda row: linear([*zeros[:number], row, *zeros[number + 1 :]])


def _jacobian(
    f: Callable[..., Any], argnums: int | Sequence[int], has_aux: bool,
    blocks: Callable[[list[Any], list[Any]], list[list[Any]]],
) -> Callable[..., Any]:  # fmt: skip
    """A function that gives the blocks of a Jacobian, of outputs (rows) and inputs, as trees."""

    @recorded
    @functools.wraps(f)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)

        def of_primals(*primals: Any) -> Any:
            given = list(arguments)
            for number, primal in zip(numbers, primals, strict=True):
                given[number] = primal
            return f(*given, **options)

        inputs, made, aux = _followed(of_primals, tuple(arguments[n] for n in numbers), has_aux)
        if complex_ones := [one for one in flat_tree((inputs, made)) if one.is_pair]:
            what = "a Jacobian of complex numbers is not one matrix; take that of the real parts"
            raise located(DTypeError(what), complex_ones)
        wanted = inputs[0] if isinstance(argnums, int) else inputs
        table = iter(blocks(parts_in(made), parts_in(inputs)))
        trees = map_tree(lambda _: filled(wanted, iter(next(table))), made)
        trees, aux = released((trees, aux), parts_in(inputs))
        return (trees, aux) if has_aux else trees

    return wrapped


def _spread(dims: Any, tree: Any) -> list[int | None]:
    """For each leaf of a tree its axis, from a tree that may be one number for a whole branch."""
    if dims is None or isinstance(dims, int):
        return [dims for _ in leaves_of(tree)]
    keyed = isinstance(tree, dict)
    if type(dims) is not type(tree) and (keyed or not isinstance(tree, list | tuple)):
        raise ShapeError(f"vmap: axes {dims} do not fit a {type(tree).__name__}")
    if len(dims) != len(tree):
        raise ShapeError(f"vmap: {len(dims)} axes for {len(tree)} values")
    pairs = [(dims[key], tree[key]) for key in tree] if keyed else zip(dims, tree, strict=True)
    return [place for part, branch in pairs for place in _spread(part, branch)]


spell(sys.modules[__name__])
