"""Memory in LLVM IR: registers as allocas, addresses, loads and stores, under conditions or not."""

from __future__ import annotations

from typing import Final

from torpor.base.dtypes import DType
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.source.linear import alignment
from torpor.source.llvm_alu import select
from torpor.source.llvm_control import in_lanes
from torpor.source.llvm_function import LOCAL_ALIGNMENT, Function
from torpor.source.llvm_stream import MARK, streamed_bytes
from torpor.source.llvm_text import mangled, memory_type, number_text, type_of

BOUNDARIES: Final = (Ops.RANGE, Ops.END, Ops.IF, Ops.ENDIF, Ops.CHECK, Ops.BARRIER)


def define_local(function: Function, node: UOp) -> None:
    """Memory of the kernel's own, on the stack."""
    kind = f"[{node.arg.size} x {memory_type(node.dtype)}]"
    function.names[node] = function.body.register("local", kind, LOCAL_ALIGNMENT)


def define_register(function: Function, node: UOp) -> None:
    """A register is set where it stands, anew in each round of the loops around it."""
    kind = type_of(node.dtype)
    align = min(LOCAL_ALIGNMENT, node.dtype.itemsize & -node.dtype.itemsize)
    name = function.names[node] = function.body.register("acc", kind, align)
    function.body.line(f"store {kind} {function.names[node.src[0]]}, ptr {name}")


def index(function: Function, node: UOp) -> None:
    """An unconditional address is computed where it stands, so outside loops if it can be."""
    if len(node.src) == 2:
        function.names[node] = address_of(function, node)


def address_of(function: Function, place: UOp, position: str = "") -> str:
    """The address of an INDEX, or of another position in its memory."""
    memory, at = place.src[:2]
    element, number = memory_type(memory.dtype.scalar()), position or function.names[at]
    text = f"getelementptr {element}, ptr {function.names[memory]}, {type_of(at.dtype)} {number}"
    return function.body.value("at", text)


def align_of(place: UOp) -> int:
    """What the address is known to be a multiple of, bytes."""
    memory = place.src[0]
    size = memory.dtype.scalar().itemsize
    if memory.op is Ops.DEFINE_LOCAL:
        return alignment(place.src[1], size, LOCAL_ALIGNMENT)
    return size


def load(function: Function, node: UOp) -> None:
    """From a register or from memory, as its condition, if any, allows."""
    place, dtype = node.src[0], node.dtype
    if place.op is Ops.ACC:
        text = f"load {type_of(dtype)}, ptr {function.names[place]}"
        value = function.body.value("val", text)
    elif len(place.src) == 2:
        value = plain_load(function, place, dtype, function.names[place])
    elif place.src[2].dtype.count == 1 and fits(place, dtype.count):
        value = guarded_load(function, node)
    else:
        value = masked_load(function, node)
    function.names[node] = value


def plain_load(function: Function, place: UOp, dtype: DType, address: str) -> str:
    """What lies at an address in the memory of an INDEX."""
    text = f"load {memory_type(dtype)}, ptr {address}, align {align_of(place)}"
    return from_memory(function, dtype, function.body.value("val", text))


def from_memory(function: Function, dtype: DType, value: str) -> str:
    """A bool is a byte in memory."""
    if dtype.kind != "bool":
        return value
    zero = "0" if dtype.count == 1 else "zeroinitializer"
    return function.body.value("val", f"icmp ne {memory_type(dtype)} {value}, {zero}")


def to_memory(function: Function, dtype: DType, value: str) -> str:
    """The reverse."""
    if dtype.kind != "bool":
        return value
    return function.body.value("val", f"zext {type_of(dtype)} {value} to {memory_type(dtype)}")


def guarded_load(function: Function, node: UOp) -> str:
    """Read element 0 where the condition fails, and then forget it: no branch."""
    place, dtype = node.src[0], node.dtype
    position, condition = place.src[1:3]
    test, zero = function.names[condition], number_text(position.dtype, 0)
    safe = select(function.body, condition, position.dtype, (test, function.names[position], zero))
    value = plain_load(function, place, dtype, address_of(function, place, safe))
    nothing = "zeroinitializer" if dtype.count > 1 else number_text(dtype, 0)
    return select(function.body, condition, dtype, (test, value, nothing))


def masked_load(function: Function, node: UOp) -> str:
    """Read the lanes for which the condition holds."""
    place, dtype = node.src[0], node.dtype
    if dtype.count == 1:  # memory of no elements: the condition never holds
        return number_text(dtype, 0)
    kind = memory_type(dtype)
    mask = (f"<{dtype.count} x i1>", function.whole(place.src[2], dtype.count))
    address = ("ptr", address_of(function, place))
    call = function.body.call(
        f"llvm.masked.load.{mangled(dtype, memory=True)}.p0",
        kind,
        address,
        ("i32", str(align_of(place))),
        mask,
        (kind, "zeroinitializer"),
    )
    return from_memory(function, dtype, function.body.value("val", call))


def store(function: Function, node: UOp) -> None:
    """To a register or to memory, past the caches or not, as its condition, if any, allows."""
    place, value = node.src[:2]
    text = function.names[value]
    if place.op is Ops.ACC:
        function.body.line(f"store {type_of(value.dtype)} {text}, ptr {function.names[place]}")
        return
    text = to_memory(function, value.dtype, text)
    if function.streams and (width := streamed_bytes(node)):
        kind = memory_type(value.dtype)
        function.body.line(f"store {kind} {text}, ptr {function.names[place]}, align {width}{MARK}")
    elif len(place.src) == 2:
        plain_store(function, place, value.dtype, text, function.names[place])
    elif place.src[2].dtype.count == 1:
        after = function.branch(function.names[place.src[2]], "store")
        plain_store(function, place, value.dtype, text, address_of(function, place))
        function.join(after)
    else:
        masked_store(function, place, value.dtype, text)


def plain_store(function: Function, place: UOp, dtype: DType, value: str, address: str) -> None:
    """To an address in the memory of an INDEX."""
    kind = memory_type(dtype)
    function.body.line(f"store {kind} {value}, ptr {address}, align {align_of(place)}")


def masked_store(function: Function, place: UOp, dtype: DType, value: str) -> None:
    """Stored with others under the same mask, when something else has to be done."""
    if function.waiting and function.waiting[0][0].src[2] is not place.src[2]:
        store_waiting(function)
    function.waiting.append((place, dtype, value))


def ends_waiting(function: Function, node: UOp) -> bool:
    """Whether stores that wait come before a node: what reads what they store, loops, branches, and
    other stores.
    """
    if node.op is Ops.LOAD:
        return any(node.src[0].src[0] is place.src[0] for place, _, _ in function.waiting)
    if node.op is Ops.STORE:
        place = node.src[0]
        return place.op is not Ops.INDEX or len(place.src) < 3 or place.src[2].dtype.count == 1
    return node.op in BOUNDARIES


def store_waiting(function: Function) -> None:
    """Plain stores where every lane is wanted, as all are but the last of a row: some processors
    take many times as long for masked ones.
    """
    waiting, function.waiting = function.waiting, []
    condition = waiting[0][0].src[2]
    count = waiting[0][1].count
    kind, mask = f"<{count} x i1>", function.whole(condition, count)
    addresses = [address_of(function, place) for place, _, _ in waiting]
    every = in_lanes(function, "and", condition)
    label = function.body.names.numbered("whole")
    function.body.line(f"br i1 {every}, label %{label}, label %part_{label}")
    function.body.label(label)
    for (place, dtype, value), address in zip(waiting, addresses, strict=True):
        plain_store(function, place, dtype, value, address)
    function.body.line(f"br label %after_{label}")
    function.body.label(f"part_{label}")
    for (place, dtype, value), address in zip(waiting, addresses, strict=True):
        call = function.body.call(
            f"llvm.masked.store.{mangled(dtype, memory=True)}.p0",
            "void",
            (memory_type(dtype), value),
            ("ptr", address),
            ("i32", str(align_of(place))),
            (kind, mask),
        )
        function.body.line(call)
    function.join(f"after_{label}")


def fits(place: UOp, count: int) -> bool:
    """Whether the first `count` elements of the memory exist, to be read instead of others."""
    size = place.src[0].arg.size
    return bool(size >= count) if size is not None else count == 1
