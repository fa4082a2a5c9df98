"""Derivatives as rules on the graph: what they give is graph again, and can be derived again.

`RULES` has a rule for each op that can lie between a target and the root: a function of a node and
the gradient of it that gives the gradient of each operand.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, NamedTuple

from torpor.base.errors import GradientError, ShapeError
from torpor.base.site import Site, gradient_of
from torpor.graph.bare import following_tangents
from torpor.graph.branch import CHOSEN, side_gradient
from torpor.graph.call import call_of, without_calls
from torpor.graph.elementwise import elementwise
from torpor.graph.gradient_elementwise import ELEMENTWISE, Gradients, like
from torpor.graph.gradient_function import FUNCTIONS
from torpor.graph.gradient_indexed import INDEXED
from torpor.graph.gradient_loop import loop_gradient
from torpor.graph.gradient_movement import MOVEMENTS
from torpor.graph.gradient_reduce import OTHERS
from torpor.graph.loop import CUSTOM, NAMING
from torpor.graph.movement import reshape
from torpor.graph.recompute import RULE, Copies, is_checkpoint
from torpor.graph.reduce import AGAIN, reduce
from torpor.graph.scan import scan_gradient
from torpor.graph.sizes import describe
from torpor.graph.template import Template, Templates, described, stand_in
from torpor.ir.infer import Shape, device_of, shape_of, shaped
from torpor.ir.ops import LOOPED, Ops
from torpor.ir.rewrite import hand_down
from torpor.ir.uop import UOp

RULES: Final[dict[Ops, Callable[[UOp, UOp], Gradients]]] = {
    **ELEMENTWISE,
    **MOVEMENTS,
    **INDEXED,
    **OTHERS,
    Ops.SCAN_AXIS: scan_gradient,
}


def function_gradient(node: UOp, g: UOp) -> Gradients:
    """d function(value, x, ...): by the rule that it names; none for how the value is computed."""
    rule, value = node.arg[0], node.src[0]
    if rule == CUSTOM:
        return None, *node.arg[1](g)
    if rule == CHOSEN:
        return None, *side_gradient(node, g, gradients)
    if rule != AGAIN:
        parts = zip(FUNCTIONS[rule](node, g), map(shape_of, node.src[1:]), strict=True)
        return None, *(None if part is None else summed_to(part, shape) for part, shape in parts)
    return None, *(RULES[value.op](value, g) if len(node.src) > 1 else ())


def over_gradient(node: UOp, g: UOp) -> Gradients:
    """d over(x, y, ...) = dx + 0 dy + ..."""
    return g, *(like(other, 0) for other in node.src[2:])


def summed_to(g: UOp, shape: Shape) -> UOp:
    """The gradient of an operand of this shape that was broadcast: the sum over all its copies."""
    wide = shape_of(g)
    if wide == shape:
        return g
    ahead = len(wide) - len(shape)
    repeated = [axis for axis in range(len(wide)) if axis < ahead or shape[axis - ahead] == 1]
    return reshape(reduce(g, Ops.ADD, repeated), shape)


RULES[Ops.FUNCTION] = function_gradient
FUNCTIONS["over"] = over_gradient
FLOWING: Final = frozenset(RULES) | LOOPED
# FUNCTIONs whose gradients are made of more than their operands; those whose rules ask for values
# are added by what registers them.
LOOKING: Final = {CHOSEN, RULE, CUSTOM}
Hooks = list[Callable[[UOp], UOp]]
# What is called with the gradient of a node, and gives the one that goes on.
watched: Final[weakref.WeakKeyDictionary[UOp, Hooks]] = weakref.WeakKeyDictionary()
# While it is a list: each node that a gradient goes through, and what a rule gives for an operand.
noted: Final[ContextVar[list[tuple[UOp, UOp]] | None]] = ContextVar("torpor_noted", default=None)
_templates: Final = Templates()
# An enumeration is slow to ask for its members.
_LOOP, _LEAF, _RESULTS = Ops.LOOP, Ops.LEAF, frozenset({Ops.CALL, Ops.PART})
_HOLDING: Final = frozenset({Ops.LOOP, Ops.SINK})  # no floats themselves, but with such below


class _Walk(NamedTuple):
    """The nodes on the way, and whether it ends there; from where, with what, and to where; and
    what is called with the gradients of nodes.
    """

    between: dict[UOp, bool]
    roots: Sequence[UOp]
    seeds: Sequence[UOp]
    targets: Sequence[UOp]
    hooks: Mapping[UOp, Hooks]


def gradient(
    root: UOp, targets: Sequence[UOp], seed: UOp, called: bool = False
) -> list[UOp | None]:
    """The gradient of `root` for each target; None where `root` does not depend on it smoothly.

    seed: the gradient of `root`, of its shape and dtype. Nothing flows below a target that is a
    LEAF, nor through integers. Only nodes between a target and the root are visited, each once;
    gradients that meet are added in the fixed order of the walk. Time grows linearly with them.
    called: whether parts of a CALL will do, which are written out when somebody looks at them.
    """
    if not root.dtype.is_float:
        raise GradientError(f"gradient of {describe(root)}: expected a float tensor")
    if shape_of(seed) != shape_of(root) or seed.dtype is not root.dtype:
        raise ShapeError(f"gradient of {describe(root)}: got a seed of {describe(seed)}")
    return _gradients([root], [seed], targets, called)


def gradients(
    roots: Sequence[UOp], seeds: Sequence[UOp], targets: Sequence[UOp]
) -> list[UOp | None]:
    """As `gradient`, of several roots together: the sum of what each would give."""
    return _gradients(roots, seeds, targets)


def _gradients(
    roots: Sequence[UOp], seeds: Sequence[UOp], targets: Sequence[UOp], called: bool = False
) -> list[UOp | None]:
    between, hooks = _between(roots, targets), dict(watched) if watched else {}
    if between is None:
        there = without_calls([*roots, *targets], [*targets, *hooks])
        roots, targets = [there[node] for node in roots], [there[node] for node in targets]
        hooks = {there[node]: called for node, called in hooks.items() if node in there}
        between = _between(roots, targets) or {}
    for node in reversed(between):
        hand_down(node)
    walk = _Walk(between, roots, seeds, targets, hooks)
    seen = bool(hooks) and not walk.between.keys().isdisjoint(hooks)
    like = None if seen or noted.get() is not None else _like(walk)
    if like is None:
        return _walked(walk, {})
    key, inputs = like
    template = _templates.get(key)
    if template is not None:
        origins = partial(_origins_of_one, [node.origins for node in inputs])
        return template.called(inputs, origins) if called else template.made(inputs, origins)
    owners = {node: node for node in inputs}
    results = _walked(walk, owners)
    if _templates.is_wanted(key):
        _learn(key, walk, inputs)
    return results


def _learn(key: Hashable, walk: _Walk, inputs: Sequence[UOp]) -> None:
    """Write down what the rules make of inputs of which nothing is known but what the key says: one
    that happens to be what a rule makes of others need not be so the next time.
    """
    known: dict[UOp, UOp] = {}
    for node in inputs:
        if walk.between.get(node, True):
            known[node] = stand_in(node)
        else:
            made = node.replace(src=tuple([known[source] for source in node.src]))
            known[node] = shaped(made, shape_of(node))
    owners = {node: node for node in known.values()}
    alike = {known[node]: ends for node, ends in walk.between.items()}
    groups = [[known.get(node, node) for node in group] for group in walk[1:4]]
    results = _walked(_Walk(alike, groups[0], groups[1], groups[2], {}), owners)
    template = Template([*known.values()], results, owners)
    if template.is_whole():
        _templates.learn(key, template)


def _like(walk: _Walk) -> tuple[Hashable, list[UOp]] | None:
    """What gradients of the same kind have in common, and the nodes that they are made of; None
    where rules look at more than these.
    """
    places: dict[UOp, int] = {}
    words: list[Hashable] = []

    def place_of(node: UOp) -> int:
        place = places.get(node)
        if place is None:
            words.append(described(node))
            place = places[node] = len(places)
        return place

    for node, ends in walk.between.items():
        if ends:
            place_of(node)
            continue
        op, arg = node.op, node.arg
        if op is Ops.FUNCTION:
            if arg[0] in LOOKING:
                return None
            arg = arg[0] if arg[0] in NAMING else repr(arg)
        elif op is Ops.COPY:
            arg = arg, device_of(node.src[0])
        sources = tuple([place_of(source) for source in node.src])
        words += (op, node.dtype, arg, sources)
        places[node] = len(places)
    ends_at = tuple([places.get(target) for target in walk.targets])
    starts = tuple([place_of(node) for node in (*walk.roots, *walk.seeds)])
    return (tuple(words), starts, ends_at, following_tangents.get()), [*places]


def _walked(walk: _Walk, owners: dict[UOp, UOp]) -> list[UOp | None]:
    """The gradients by the rules of the nodes between; `owners` gets whose gradient a node is."""
    between, roots, seeds, targets, hooks = walk
    found: dict[UOp, UOp] = {}
    of_loops: dict[UOp, dict[UOp, UOp]] = {}  # by LOOP: the gradient of each thing that it gives
    copies: dict[Any, Copies] = {}  # of values that are computed again, by checkpoint
    noting = noted.get()
    for root, seed in zip(roots, seeds, strict=True):
        _add(found, root, seed)
    for node in reversed(between):
        grad = found.get(node)
        if grad is not None and node in hooks:
            for hook in tuple(hooks[node]):
                grad = found[node] = hook(grad)
        if between[node] or (grad is None and node not in of_loops):
            continue
        if grad is None:
            parts = loop_gradient(node, of_loops[node], gradients)
        elif (given := _of_loop(node)) is not None:
            _add(of_loops.setdefault(given.src[0], {}), given, grad)
            continue
        elif is_checkpoint(node):
            again = copies.setdefault(node.arg, Copies())
            parts = (None, *again.gradients(node, grad, _gradients))
        else:
            parts = RULES[node.op](node, grad)
        for source, part in zip(node.src, parts, strict=True):
            if part is not None and source in between:
                _note_origins(part, node, grad, owners)
                if noting is not None:
                    noting.append((node, part))
                _add(found, source, part)
    return [found.get(target) if target in between else None for target in targets]


def _of_loop(node: UOp) -> UOp | None:
    """What a LOOP gives that this is, perhaps by another name."""
    value = node.src[0] if node.op is Ops.FUNCTION and node.arg[0] == AGAIN else node
    return value if value.op in LOOPED and (node is value or len(node.src) > 1) else None


def _add(found: dict[UOp, UOp], node: UOp, part: UOp) -> None:
    before = found.get(node)
    found[node] = part if before is None else elementwise(Ops.ADD, before, part)


def _note_origins(part: UOp, node: UOp, grad: UOp | None, owners: dict[UOp, UOp]) -> None:
    """Let the nodes that the rule for `node` made of `grad` say whose gradient they are."""
    given = {node, grad, *node.src}
    origins = _origins_of_one([node.origins], 0)
    stack = [part]
    while stack:
        made = stack.pop()
        if made not in given and made not in owners and made.src:
            owners[made] = node
            made.origins = made.origins or origins
            stack += made.src


def _origins_of_one(origins: Sequence[tuple[Site, ...]], number: int) -> tuple[Site, ...]:
    return tuple([gradient_of(site) for site in origins[number]])


def _between(roots: Sequence[UOp], targets: Sequence[UOp]) -> dict[UOp, bool] | None:
    """The nodes on paths from a target to a root, operands first; whether the walk ends there. None
    where calls hide some.
    """
    wanted = frozenset(targets)

    def goes_on(node: UOp) -> bool:
        if node.op not in FLOWING or node.dtype.kind != "float":
            return node.op in _HOLDING
        return node.op is not _LEAF or node not in wanted

    between: dict[UOp, bool] = {}
    hiding: list[UOp] = []
    for node in UOp.sink(*roots).toposort(goes_on):
        if node.op in _RESULTS and call_of(node).arg.template.flows:
            hiding.append(node)
        if node.dtype.kind != "float" and node.op is not _LOOP:
            continue
        below = not between.keys().isdisjoint(node.src) and goes_on(node)
        if below or node in wanted:
            between[node] = not below
    hidden = hiding and not wanted.isdisjoint(UOp.sink(*hiding).toposort())
    return None if hidden else between
