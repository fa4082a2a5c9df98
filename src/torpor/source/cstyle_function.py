"""The body of one function in a C-like language, statement by statement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from torpor.base.errors import ContractError
from torpor.ir.ops import ALU, AxisType, Ops
from torpor.ir.uop import UOp
from torpor.source.cstyle_language import Language, bare
from torpor.source.linear import Signature
from torpor.source.names import Names, identifier
from torpor.source.placement import Placement

LONGEST: Final = 90  # characters of an expression that is written at its use
INDENT: Final = "  "


class Function:
    """The body of one function under construction."""

    def __init__(self, language: Language, nodes: list[UOp], takes: Signature):
        self.language, self.takes = language, takes
        self.placement = Placement(nodes)
        self.nodes = [n for n in nodes if n in self.placement.used]
        taken = [f"data{n}" for n, _ in takes.parameters]
        self.free = Names([*taken, "error", "thread_begin", "thread_end", "gid", "lid"])
        self.names: dict[UOp, str] = {}
        for node in takes.variables:
            self.names[node] = self.free.exact(node.arg[0])
            if self.names[node] != node.arg[0]:
                raise ContractError(f"a variable cannot be called {node.arg[0]}")
        self.text: list[str] = []
        self.depth = 1

    def lines(self) -> list[str]:
        for node in self.nodes:
            _STATEMENTS.get(node.op, Function.value)(self, node)
        return self.text

    def line(self, text: str) -> None:
        self.text.append(INDENT * self.depth + text)

    def of(self, node: UOp) -> str:
        return self.names[node]

    # --- values -----------------------------------------------------------------------------------
    def value(self, node: UOp) -> None:
        """A pure value: a variable where it is used again, else its text at its use."""
        text = self.expression(node)
        if node in self.placement.named or (node.op in ALU and len(text) > LONGEST):
            self.name(node, _PREFIXES.get(node.op, "alu"), text)
        else:
            self.names[node] = text

    def name(self, node: UOp, prefix: str, text: str) -> None:
        name = self.names[node] = self.free.numbered(prefix)
        self.line(self.language.declare(node.dtype, name, text))

    def expression(self, node: UOp) -> str:
        language, op = self.language, node.op
        operands = tuple(self.of(s) for s in node.src)
        if op is Ops.CONST:
            return language.number(node.dtype, node.arg)
        if op is Ops.VECTORIZE:
            return language.vector(node.dtype, tuple(bare(o) for o in operands))
        if op is Ops.GEP:
            return language.lane(node.src[0].dtype, operands[0], node.arg[0])
        if op in ALU:
            return language.expression(node, operands)
        raise ContractError(f"{language.target.name} has no {op}")

    def parameter(self, node: UOp) -> None:
        self.names[node] = f"data{node.arg.slot}"

    def variable(self, node: UOp) -> None:
        """Named with the parameters, before anything else."""

    def define_local(self, node: UOp) -> None:
        name = self.names[node] = self.free.exact(f"local{node.arg.slot}")
        text = self.language.local_memory(node.dtype, name, node.arg.size)
        if text:
            self.line(text)

    def special(self, node: UOp) -> None:
        name = self.names[node] = self.free.exact(identifier(node.arg))
        text = self.language.declare(node.dtype, name, self.language.special(node))
        self.line(f"{text} /* {self.size(node.src[0])} */")

    def size(self, node: UOp) -> str:
        return str(node.arg) if node.op is Ops.CONST else bare(self.of(node))

    def define_register(self, node: UOp) -> None:
        name = self.names[node] = self.free.exact(f"acc{node.arg}")
        text = self.language.declare(node.dtype, name, self.of(node.src[0]), mutable=True)
        self.line(text)

    def index(self, node: UOp) -> None:
        """Written where memory is read or written."""

    # --- loops and conditions ---------------------------------------------------------------------
    def open_loop(self, node: UOp) -> None:
        name = self.names[node] = self.free.exact(f"ridx{node.arg[0]}")
        end = self.size(node.src[0])
        if node.arg[1] is AxisType.THREAD:
            text = self.language.loop(node.dtype, name, "thread_begin", "thread_end")
            self.line(f"{text} /* {end} */")
        else:
            self.line(self.language.loop(node.dtype, name, "0", end))
        self.depth += 1

    def open_condition(self, node: UOp) -> None:
        self.line(self.language.condition(self.of(node.src[0])))
        self.depth += 1

    def close(self, node: UOp) -> None:
        self.depth -= 1
        self.line("}")

    # --- memory -----------------------------------------------------------------------------------
    def position(self, node: UOp) -> str:
        return self.language.position(node.dtype, self.of(node))

    def load(self, node: UOp) -> None:
        place = node.src[0]
        if place.op is Ops.ACC:
            self.names[node] = self.of(place)
            if node in self.placement.named:
                self.name(node, "val", self.of(place))
            return
        memory, index = self.of(place.src[0]), self.position(place.src[1])
        if len(place.src) > 2:
            condition = self.of(place.src[2])
            text = self.language.guarded_read(node.dtype, place, memory, index, condition)
        else:
            text = self.language.read(node.dtype, place, memory, index)
        self.name(node, "val", text)

    def store(self, node: UOp) -> None:
        place, value = node.src[:2]
        if place.op is Ops.ACC:
            self.line(f"{self.of(place)} = {bare(self.of(value))};")
            return
        memory, index = self.of(place.src[0]), self.position(place.src[1])
        text = self.language.assign(value.dtype, place, memory, index, self.of(value))
        if len(place.src) > 2:
            text = f"{self.language.condition(self.of(place.src[2]))} {text} }}"
        self.line(text)

    def check(self, node: UOp) -> None:
        for text in self.language.check(self.of(node.src[0]), node.arg):
            self.line(text)

    def barrier(self, node: UOp) -> None:
        if self.language.barrier_text:
            self.line(self.language.barrier_text)


_PREFIXES: Final = {Ops.CAST: "cast", Ops.BITCAST: "cast", Ops.VECTORIZE: "vec"}
_STATEMENTS: Final[dict[Ops, Callable[[Function, UOp], None]]] = {
    Ops.PARAM: Function.parameter,
    Ops.VARIABLE: Function.variable,
    Ops.DEFINE_LOCAL: Function.define_local,
    Ops.SPECIAL: Function.special,
    Ops.ACC: Function.define_register,
    Ops.INDEX: Function.index,
    Ops.RANGE: Function.open_loop,
    Ops.END: Function.close,
    Ops.IF: Function.open_condition,
    Ops.ENDIF: Function.close,
    Ops.LOAD: Function.load,
    Ops.STORE: Function.store,
    Ops.CHECK: Function.check,
    Ops.BARRIER: Function.barrier,
}
