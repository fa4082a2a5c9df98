"""Tensors over several devices: MULTI nodes are pushed to the roots, so that every operation is one
operation a device.

A sharded value is its parts, one a device, and the axis they are cut along (None: each device has
all of it). Operations on equally cut operands act part by part. A reduction over the cut axis
reduces each part and adds the results up on every device. What cannot be done part by part gathers
first.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from torpor.base.dtypes import DType, from_name
from torpor.ir.infer import JOINT, Shape, device_of, shape_of
from torpor.ir.ops import ALU, Ops
from torpor.ir.uop import UOp

_SAME: Final = frozenset({Ops.CONTIGUOUS, Ops.DETACH, Ops.LEAF})


class Shards(NamedTuple):
    """A value over `devices`: its part on each, and the axis that they are cut along."""

    parts: tuple[UOp, ...]
    axis: int | None
    devices: tuple[str, ...]


Form = UOp | Shards


def resolve(root: UOp) -> UOp:
    """The SINK `root` without MULTI, except as its operands."""
    order = root.toposort()
    if not any(node.op is Ops.MULTI or spreads(node) for node in order):
        return root
    forms: dict[UOp, Form] = {}
    for node in order:
        if node is not root:
            forms[node] = resolved(node, [forms[s] for s in node.src])
    return UOp.sink(*(as_node(forms[s]) for s in root.src))


def spreads(node: UOp) -> bool:
    """Whether the node copies a value to several devices."""
    return node.op is Ops.COPY and JOINT in node.arg


def as_node(form: Form) -> UOp:
    """The value as one node: MULTI where it is on several devices."""
    if isinstance(form, UOp):
        return form
    return UOp(Ops.MULTI, form.parts[0].dtype, form.parts, (form.axis, form.devices))


def resolved(node: UOp, sources: list[Form]) -> Form:
    """What a node becomes, given what its operands have become."""
    if node.op is Ops.MULTI:
        return Shards(tuple(s for s in sources if isinstance(s, UOp)), *node.arg)
    shards = [s for s in sources if isinstance(s, Shards)]
    if spreads(node):
        return everywhere(sources[0], tuple(node.arg.split(JOINT)))
    if not shards:
        plain = tuple(s for s in sources if isinstance(s, UOp))
        return node.over(plain)
    if node.op is Ops.COPY:
        return gathered(shards[0], node.arg)
    if node.op in ALU or node.op is Ops.CHECK:
        axis = next((s.axis for s in shards if s.axis is not None), None)
        return each(node, [cut(s, axis, shards[0].devices) for s in sources], axis)
    if node.op in _SAME:
        return each(node, [shards[0]], shards[0].axis)
    if node.op is Ops.AFTER:
        both = [s if isinstance(s, Shards) else cut(s, None, shards[0].devices) for s in sources]
        return each(node, both, both[0].axis)
    if node.op is Ops.REDUCE_AXIS:
        return reduced(node, shards[0])
    if node.op is Ops.GATHER:
        return picked(node, sources, shards[0].devices)
    if shards[0].axis is not None:
        moved = moved_apart(node, shards[0])
        if moved is not None:
            return moved
    return each(node, [cut(whole(s), None, shards[0].devices) for s in sources], None)


def everywhere(form: Form, devices: tuple[str, ...]) -> Shards:
    """The value on other devices: whole on each, unless it is on these already."""
    if isinstance(form, UOp):
        return cut(form, None, devices)
    if form.devices == devices:
        return form
    return Shards(tuple(gathered(form, d) for d in devices), None, devices)


def picked(node: UOp, sources: list[Form], devices: tuple[str, ...]) -> Shards:
    """x[index]: each device picks for its part of the index; out of the whole x along the axis that
    is picked along, out of its part of x along others.
    """
    source, index = sources
    axis = index.axis if isinstance(index, Shards) else None
    along = None if axis == node.arg else axis
    return each(node, [cut(source, along, devices), cut(index, axis, devices)], axis)


def each(node: UOp, sources: list[Shards], axis: int | None) -> Shards:
    """The operation on the parts of each device."""
    devices = sources[0].devices
    parts = zip(*(s.parts for s in sources), strict=True)
    return Shards(tuple(node.replace(src=tuple(p)) for p in parts), axis, devices)


def whole(form: Form) -> Form:
    """The value on every device, whole."""
    if isinstance(form, UOp) or form.axis is None:
        return form
    return Shards(tuple(gathered(form, d) for d in form.devices), None, form.devices)


def gathered(shards: Shards, device: str) -> UOp:
    """The whole value on one device: the bits of the parts, padded to their places, joined by OR.

    Not a sum of the values: 0.0 + -0.0 is 0.0.
    """
    if shards.axis is None:
        if device in shards.devices:
            return shards.parts[shards.devices.index(device)]
        return on(shards.parts[0], device)
    made: UOp | None = None
    length = int(shape_of(shards.parts[0])[shards.axis])  # type: ignore[arg-type]
    total = length * len(shards.parts)
    for number, part in enumerate(shards.parts):
        pairs = tuple(
            (number * length, total - (number + 1) * length) if a == shards.axis else (0, 0)
            for a in range(len(shape_of(part)))
        )
        bits = on(part, device).bitcast(bits_of(part.dtype))
        placed = UOp(Ops.PAD, bits.dtype, (bits,), pairs)
        made = placed if made is None else made.alu(Ops.OR, placed)
    assert made is not None, "there is at least one part"
    return made.bitcast(shards.parts[0].dtype)


def bits_of(dtype: DType) -> DType:
    """The integers, or bools, of the same bits as a format."""
    return from_name(f"uint{dtype.bits}") if dtype.is_float else dtype


def on(node: UOp, device: str) -> UOp:
    """The node on a device, copied if it is elsewhere."""
    here = device_of(node)
    return node if here in (None, device) else UOp(Ops.COPY, node.dtype, (node,), device)


def cut(form: Form, axis: int | None, devices: tuple[str, ...]) -> Shards:
    """The value cut along `axis` (None: whole on every device)."""
    if isinstance(form, UOp):
        form = Shards(tuple(on(form, d) for d in devices), None, devices)
    if form.axis == axis or shape_of(form.parts[0]) == ():
        return form
    whole_form = whole(form)
    assert isinstance(whole_form, Shards), "a sharded value stays one"
    if axis is None:
        return whole_form
    parts = tuple(chunk(part, axis, n, len(devices)) for n, part in enumerate(whole_form.parts))
    return Shards(parts, axis, devices)


def chunk(node: UOp, axis: int, number: int, count: int) -> UOp:
    """Part `number` of `count` equal parts of a node along an axis."""
    shape = shape_of(node)
    length = int(shape[axis]) // count  # type: ignore[arg-type]
    bounds = tuple(
        (number * length, (number + 1) * length) if a == axis else (0, size)
        for a, size in enumerate(shape)
    )
    return UOp(Ops.SHRINK, node.dtype, (node,), bounds)


def reduced(node: UOp, shards: Shards) -> Shards:
    """Each part reduced; over the cut axis also the results, in the same order on every device."""
    op, axes = node.arg
    made = each(node, [shards], shards.axis)
    if shards.axis is None or shards.axis not in axes:
        return made
    stored = tuple(UOp(Ops.CONTIGUOUS, p.dtype, (p,)) for p in made.parts)
    totals = []
    for device in shards.devices:
        total = on(stored[0], device)
        for part in stored[1:]:
            total = total.alu(op, on(part, device))
        totals.append(total)
    return Shards(tuple(totals), None, shards.devices)


def moved_apart(node: UOp, shards: Shards) -> Shards | None:
    """A movement done part by part; None where it moves the cut axis."""
    axis, count = shards.axis, len(shards.devices)
    assert axis is not None, "whole values move as they are"
    part, arg = shape_of(shards.parts[0]), node.arg
    new_axis = axis
    if node.op is Ops.PERMUTE:
        new_axis = arg.index(axis)
    elif node.op is Ops.EXPAND:
        arg = with_item(arg, axis, part[axis])
    elif node.op is Ops.RESHAPE:
        found = axis_after_reshape(shape_of(node.src[0]), arg, axis, count)
        if found is None:
            return None
        new_axis, arg = found, with_item(arg, found, arg[found] // count)
    elif node.op is Ops.PAD and arg[axis] == (0, 0):
        pass
    elif node.op is Ops.SHRINK and arg[axis] == (0, shape_of(node.src[0])[axis]):
        arg = with_item(arg, axis, (0, part[axis]))
    elif (node.op is not Ops.FLIP or arg[axis]) and (node.op is not Ops.SHEAR or axis in arg[:2]):
        return None
    return each(node.replace(arg=arg), [shards], new_axis)


def with_item(items: tuple[object, ...], place: int, value: object) -> tuple[object, ...]:
    """The tuple with one item changed."""
    return (*items[:place], value, *items[place + 1 :])


def axis_after_reshape(old: Shape, new: Shape, axis: int, count: int) -> int | None:
    """The axis of the new shape along which the parts are cut; None if none is."""
    if not all(isinstance(size, int) for size in (*old, *new)):
        return None
    before = math.prod(old[:axis])
    for place, size in enumerate(new):
        ahead = math.prod(new[:place])
        if ahead == before and isinstance(size, int) and size > 1 and size % count == 0:
            return place
    return None
