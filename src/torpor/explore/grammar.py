"""The languages that the page reads: expressions, and views and trackers as their `repr`.

Read by a grammar of our own, never evaluated, and bounded: `SyntaxFault` says what is wrong and at
which character.

    expression  or_  or  `or_ if or_ else expression`
    or_         comparisons joined by `and`, `or`, `not`
    comparison  sums joined by < <= > >= == != (a chain means all of them)
    sum         + - * // %, unary -, (…), a number, a name, True, False, min(…), max(…)
    value       a number, None, True, False, (…, …), [… , …], a call, or lines of arithmetic as
                `ir.text` writes them: a size that is known at launch only
    call        NAME(value, …, NAME=value) and .NAME(…) after it, any number of times
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, NoReturn

from torpor.base.dtypes import dtypes
from torpor.base.errors import TorporError
from torpor.ir.ops import Ops
from torpor.ir.text import parse
from torpor.ir.uop import UOp

LONGEST: Final = 4000  # characters of a text
DEEPEST: Final = 40  # parentheses inside of each other
LARGEST: Final = 1 << 40  # a number's size
_NODE: Final = (
    r"%\d+ = Ops\.(?:CONST index = -?\d{1,13}|VARIABLE index = \('\w+', -?\d{1,13}, -?\d{1,13}\)"
    r"|(?:ADD|SUB|MUL|IDIV|MOD|MIN|MAX) index \(%\d+, %\d+\))\s*"
)
_TOKEN: Final = re.compile(
    rf"\s*(?:(\d+)|([A-Za-z_]\w*)|((?:{_NODE})+)"
    r"|(//|<=|>=|==|!=|[-+*%<>()\[\],.=&|~])|(\S))"
)
_COMPARISONS: Final[Mapping[str, Callable[[UOp, UOp], UOp]]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a.eq(b),
    "!=": lambda a, b: a.ne(b),
}
_EITHER: Final = dict.fromkeys(("or", "|"), operator.or_)
_BOTH: Final = dict.fromkeys(("and", "&"), operator.and_)
_SUMS: Final = {"+": operator.add, "-": lambda a, b: a + b * -1}
_PRODUCTS: Final = {"*": operator.mul, "//": operator.floordiv, "%": operator.mod}


class SyntaxFault(ValueError):
    """A text that cannot be read: what is wrong, and at which character (from 0)."""

    def __init__(self, message: str, offset: int):
        super().__init__(message)
        self.message, self.offset = message, offset


class Token(NamedTuple):
    """A piece of text: kind is "number", "name", "nodes", "sign" or "end"."""

    kind: str
    text: str
    offset: int


@dataclass
class Call:
    """`name(arguments, keywords)`, applied to `on` if it is a method's; where it stands."""

    name: str
    arguments: list[Any]
    keywords: dict[str, Any]
    offset: int
    on: Call | None = None


def tokens(text: str) -> list[Token]:
    """The pieces of a text, the last of kind "end"."""
    if len(text) > LONGEST:
        raise SyntaxFault(f"longer than {LONGEST} characters", LONGEST)
    found, place = [], 0
    while (match := _TOKEN.match(text, place)) is not None:
        kind = ("number", "name", "nodes", "sign", "")[(match.lastindex or 1) - 1]
        start = match.start(match.lastindex or 0)
        if not kind:
            raise SyntaxFault(f"{match[5]!r} has no meaning here", start)
        found.append(Token(kind, match[match.lastindex or 0], start))
        place = match.end()
    return [*found, Token("end", "", len(text.rstrip()))]


@dataclass
class _Reader:
    text: str
    place: int = 0
    depth: int = 0
    tokens: list[Token] = field(init=False)

    def __post_init__(self) -> None:
        self.tokens = tokens(self.text)

    @property
    def next(self) -> Token:
        return self.tokens[self.place]

    def fault(self, message: str) -> NoReturn:
        raise SyntaxFault(message, self.next.offset)

    def take(self, *texts: str) -> Token | None:
        """The next token, if it is one of these."""
        token = self.next
        if token.kind in ("sign", "name") and token.text in texts:
            self.place += 1
            return token
        return None

    def expect(self, text: str) -> Token:
        token = self.take(text)
        if token is None:
            self.fault(f"expected {text!r}{self.found()}")
        return token

    def found(self) -> str:
        return f", found {self.next.text!r}" if self.next.text else ", but the text ends"

    def end(self) -> None:
        if self.next.kind != "end":
            self.fault(f"{self.next.text!r} is not expected here")

    def number(self) -> int:
        token = self.next
        if token.kind != "number":
            self.fault(f"expected a number{self.found()}")
        if len(token.text) > 15 or int(token.text) > LARGEST:
            self.fault("the number is too large")
        self.place += 1
        return int(token.text)

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > DEEPEST:
            self.fault(f"more than {DEEPEST} parentheses inside of each other")


# --- expressions ----------------------------------------------------------------------------------
class _Expressions(_Reader):
    variables: Mapping[str, UOp] = {}

    def whole(self) -> UOp:
        yes = self.either()
        start = self.next.offset
        if not self.take("if"):
            return yes
        self.deeper()
        condition = self.condition(self.either(), start)
        self.expect("else")
        no = self.whole()
        self.depth -= 1
        if yes.dtype is not no.dtype:
            raise SyntaxFault("one side is a number, the other a condition", start)
        return condition.where(yes, no)

    def joined(
        self, signs: Mapping[str, Callable[[UOp, UOp], UOp]], below: Callable[[], UOp],
        kind: Callable[[UOp, int], UOp],
    ) -> UOp:  # fmt: skip
        """Operands of a kind with signs between them, of which the first binds first."""
        start = self.next.offset
        left = below()
        while token := self.take(*signs):
            left = kind(left, start)
            right_at = self.next.offset
            right = kind(below(), right_at)
            if token.text in ("//", "%") and right.vmin <= 0 <= right.vmax:
                raise SyntaxFault("this may be zero, and something is divided by it", right_at)
            left = signs[token.text](left, right)
        return left

    def either(self) -> UOp:
        return self.joined(_EITHER, self.both, self.condition)

    def both(self) -> UOp:
        return self.joined(_BOTH, self.negation, self.condition)

    def negation(self) -> UOp:
        if not self.take("not", "~"):
            return self.comparison()
        self.deeper()
        start = self.next.offset
        value = ~self.condition(self.negation(), start)
        self.depth -= 1
        return value

    def comparison(self) -> UOp:
        start = self.next.offset
        left, found = self.sum(), None
        while token := self.take(*_COMPARISONS):
            left = self.integer(left, start)
            start = self.next.offset
            right = self.integer(self.sum(), start)
            one = _COMPARISONS[token.text](left, right)
            found = one if found is None else found & one
            left = right
        return left if found is None else found

    def sum(self) -> UOp:
        return self.joined(_SUMS, self.product, self.integer)

    def product(self) -> UOp:
        return self.joined(_PRODUCTS, self.unary, self.integer)

    def unary(self) -> UOp:
        if not self.take("-"):
            return self.leaf()
        self.deeper()
        start = self.next.offset
        value = self.integer(self.unary(), start)
        self.depth -= 1
        return value * -1

    def leaf(self) -> UOp:
        token = self.next
        if token.kind == "number":
            return UOp.index_const(self.number())
        if self.take("("):
            self.deeper()
            value = self.whole()
            self.expect(")")
            self.depth -= 1
            return value
        if self.take("min", "max"):
            return self.extremum(token.text)
        if token.kind != "name" or token.text in ("and", "or", "not", "if", "else"):
            self.fault(f"expected a number or a name{self.found()}")
        if token.text in ("True", "False"):
            self.place += 1
            return UOp.const(dtypes.bool, token.text == "True")
        if token.text not in self.variables:
            known = ", ".join(self.variables) or "none"
            self.fault(f"{token.text!r} is no variable; there are {known}")
        self.place += 1
        return self.variables[token.text]

    def extremum(self, name: str) -> UOp:
        self.expect("(")
        self.deeper()
        start = self.next.offset
        value = self.integer(self.whole(), start)
        while self.take(","):
            start = self.next.offset
            other = self.integer(self.whole(), start)
            value = value.minimum(other) if name == "min" else value.maximum(other)
        self.expect(")")
        self.depth -= 1
        return value

    def integer(self, value: UOp, offset: int) -> UOp:
        if value.dtype is not dtypes.index:
            raise SyntaxFault("this is a condition, and a number is expected", offset)
        return value

    def condition(self, value: UOp, offset: int) -> UOp:
        if value.dtype is not dtypes.bool:
            raise SyntaxFault("this is a number, and a condition is expected", offset)
        return value


def expression(text: str, variables: Mapping[str, UOp]) -> UOp:
    """The expression of a text; a number (dtype index) or a condition (bool)."""
    reader = _Expressions(text)
    reader.variables = variables
    value = reader.whole()
    reader.end()
    return value


# --- values and calls -----------------------------------------------------------------------------
class _Values(_Reader):
    def value(self) -> Any:
        token = self.next
        if self.take("-"):
            return -self.number()
        if token.kind == "number":
            return self.number()
        if token.kind == "nodes":
            return self.nodes()
        if token.text in ("(", "["):
            return self.row()
        if word := self.take("None", "True", "False"):
            return {"None": None, "True": True, "False": False}[word.text]
        return self.chain()

    def nodes(self) -> UOp:
        try:
            found = parse("\n".join(re.findall(_NODE, self.next.text)))
        except TorporError as error:
            self.fault(str(error))
        for node in found.toposort():
            if node.vmin > node.vmax:
                self.fault(f"{node.arg[0]}: {node.vmin} is more than {node.vmax}")
            if node.op in (Ops.IDIV, Ops.MOD) and node.src[1].vmin <= 0 <= node.src[1].vmax:
                self.fault("something is divided by what may be zero")
        self.place += 1
        return found

    def row(self) -> tuple[Any, ...]:
        close = ")" if self.expect(self.next.text).text == "(" else "]"
        self.deeper()
        found = []
        while not self.take(close):
            found.append(self.value())
            if not self.take(","):
                self.expect(close)
                break
        self.depth -= 1
        return tuple(found)

    def chain(self) -> Call:
        call = self.call(None)
        while self.take("."):
            call = self.call(call)
        return call

    def call(self, on: Call | None) -> Call:
        token = self.next
        if token.kind != "name":
            self.fault(f"expected a name or a number{self.found()}")
        self.place += 1
        name = token.text
        while on is None and self.next.text == ".":  # a class's own function
            self.place += 1
            name += f".{self.next.text}"
            self.place += self.next.kind == "name"
        self.expect("(")
        self.deeper()
        made = Call(name, [], {}, token.offset, on)
        while not self.take(")"):
            self.argument(made)
            if not self.take(","):
                self.expect(")")
                break
        self.depth -= 1
        return made

    def argument(self, made: Call) -> None:
        token = self.next
        if token.kind == "name" and self.tokens[self.place + 1].text == "=":
            self.place += 2
            made.keywords[token.text] = self.value()
        elif made.keywords:
            self.fault("an argument without a name after one with a name")
        else:
            made.arguments.append(self.value())


def value(text: str) -> Any:
    """The value of a text: a number, None, a tuple of values, a node, or a `Call`."""
    reader = _Values(text)
    found = reader.value()
    reader.end()
    return found
