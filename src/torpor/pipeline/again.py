"""Small graphs again, of other memory.

A graph that recurs is not planned again, but it is written down to be recognised. One of a few
operations on memory is its own name, in a quarter of the time that writing it down takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from torpor.device import Buffer
from torpor.device.buffer import buffer_node
from torpor.ir.infer import shape_of
from torpor.ir.ops import ALU, MOVEMENT, Ops
from torpor.ir.uop import UOp
from torpor.pipeline import anew
from torpor.pipeline.canonical import canonical, settings_now
from torpor.pipeline.compiled_graph import Failed
from torpor.pipeline.recipe import Recipe, recipe_for

MOST_OPS: Final = 8  # of a small graph: larger ones take longer to run than to write down
MOST_SMALL: Final = 4096  # small graphs that are known
# An enumeration is slow to ask for its members.
_BUFFER, _CONST, _FUNCTION, _RESHAPE = Ops.BUFFER, Ops.CONST, Ops.FUNCTION, Ops.RESHAPE
_WORDS: Final = ALU | {Ops.REDUCE_AXIS}  # they are told by op, format and arg

Small = tuple[tuple[Any, ...], list[Buffer]]
_small: Final[dict[tuple[Any, ...], Recipe | None]] = {}  # None: there is no recipe for it alone


def named(root: UOp, device: str) -> Small | None:
    """The name of a small graph, and the buffers that it reads, in the order of `canonical`; None
    for any other, and where something in it is known. Equal nodes are one, so the tree says it all,
    but for which buffers are the same.
    """
    words: list[Any] = []
    buffers: dict[Buffer, int] = {}
    stack, left = [root], MOST_OPS
    while stack:
        node = stack.pop()
        while node.op is _FUNCTION:
            node = node.src[0]  # its rule for gradients changes no value
        op, source = node.op, node.src
        if op in _WORDS:
            if not left or node.known is not None:
                return None
            left -= 1
            words += (op, node.dtype, node.arg)
            stack += source[::-1]
            continue
        below = source[0] if op is _RESHAPE else node
        if below.op is _BUFFER:
            memory = below.arg
            place = buffers.setdefault(memory, len(buffers))
            words += (place, node.dtype, memory.size, memory.device, node.arg if source else None)
        elif node.below(MOVEMENT).op is _CONST:
            words.append(node)
        else:
            return None
    return (settings_now(), device, *words), [*buffers]


def value_of(small: Small, root: UOp) -> UOp | None:
    """The value of a small graph that is known, computed while nobody wants to see it; None of any
    other, and where a check fails, whose error needs the way that every graph goes.
    """
    name, buffers = small
    recipe = _small.get(name)
    if recipe is None:
        return None
    anew.ran()
    with recipe.lock:
        made = recipe.takes[0]()
    try:
        recipe.graph.launch(buffers, (made.buffer,))
    except Failed:
        return None
    return made.node if made.node is not None else buffer_node(made.buffer, shape_of(root))


def forget_small() -> None:
    """Forget all small graphs: more may be wanted of them."""
    _small.clear()


def know(small: Small, roots: Sequence[tuple[UOp, str]]) -> None:
    """Know a small graph that has just been computed."""
    name, buffers = small
    if name in _small:
        return
    form = canonical(roots)
    recipe = None if form is None or form.buffers != buffers or form.bound else recipe_for(form)
    alone = (
        recipe is not None
        and not recipe.left  # which is counted where it is followed
        and len(recipe.takes) == 1
        and recipe.results[0][1] is None
    )
    if len(_small) >= MOST_SMALL:
        _small.clear()
    _small[name] = recipe if alone else None
