"""UOps as z3 terms: unbounded integers with floor division, or bit vectors."""

import z3

from torpor.base.dtypes import dtypes
from torpor.ir import Ops


def floor_divide(a, b):
    """Floor division; z3's own is Euclidean, which is the floor for positive divisors only."""
    if z3.is_int_value(b):
        return a / b if b.as_long() > 0 else (-a) / (-b)
    return z3.If(b > 0, a / b, (-a) / (-b))


def floor_modulo(a, b):
    """What the op table says of MOD; z3's own, the same, where it decides faster."""
    if z3.is_int_value(b) and b.as_long() > 0:
        return a % b
    return a - floor_divide(a, b) * b


def _bits(node, a, b):
    if node.dtype is not dtypes.bool:
        return {Ops.AND: a & b, Ops.OR: a | b, Ops.XOR: a ^ b}[node.op]
    return {Ops.AND: z3.And, Ops.OR: z3.Or, Ops.XOR: z3.Xor}[node.op](a, b)


def _divide(a, b):
    if not z3.is_bv(a):
        return floor_divide(a, b)
    inexact = z3.And(z3.SRem(a, b) != 0, (a < 0) != (b < 0))
    return z3.If(inexact, a / b - 1, a / b)  # on bit vectors `/` truncates


MEANING = {
    Ops.ADD: lambda n, a, b: a + b,
    Ops.SUB: lambda n, a, b: a - b,
    Ops.MUL: lambda n, a, b: a * b,
    Ops.IDIV: lambda n, a, b: _divide(a, b),
    Ops.MOD: lambda n, a, b: floor_modulo(a, b),
    Ops.MAX: lambda n, a, b: z3.If(a < b, b, a),
    Ops.MIN: lambda n, a, b: z3.If(a < b, a, b),
    Ops.CMPLT: lambda n, a, b: a < b,
    Ops.CMPEQ: lambda n, a, b: a == b,
    Ops.CMPNE: lambda n, a, b: a != b,
    Ops.AND: _bits,
    Ops.OR: _bits,
    Ops.XOR: _bits,
    Ops.WHERE: lambda n, c, a, b: z3.If(c, a, b),
}


def translate(root, known, number=z3.IntVal):
    """`root` as a z3 term; `known` has the terms of its leaves and takes those of its nodes."""
    for node in root.toposort(lambda n: n not in known):
        if node in known:
            continue
        if node.op is Ops.CONST:
            known[node] = z3.BoolVal(node.arg) if node.dtype is dtypes.bool else number(node.arg)
        else:
            known[node] = MEANING[node.op](node, *(known[s] for s in node.src))
    return known[root]


def is_proved(claim, *assumptions, timeout=20_000):
    """Whether z3 finds no counterexample; a counterexample or giving up is an assertion error."""
    solver = z3.Solver()
    solver.set("timeout", timeout)
    solver.add(*assumptions, z3.Not(claim))
    answer = solver.check()
    assert answer != z3.sat, solver.model()
    assert answer == z3.unsat, f"z3 gave up: {solver.reason_unknown()}"
    return True
