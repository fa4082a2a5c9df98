"""The contracts of kernels: broken IR is refused, and the pass is named that broke it.

That unbroken kernels pass is checked wherever a test compiles one: tests run under CHECK.
"""

from importlib import import_module

import pytest

from torpor import Context
from torpor.base.dtypes import dtypes
from torpor.base.errors import ContractError
from torpor.base.target import get_target
from torpor.ir import AxisType, Contract, Ops, ParamArg, UOp
from torpor.kernel import contracts
from torpor.kernel import lower as lower_kernel

lower = import_module("torpor.kernel.lower")  # the package has its function under this name
F, B, INT, INDEX, VOID = dtypes.float32, dtypes.bool, dtypes.int32, dtypes.index, dtypes.void
MEMORY = [UOp(Ops.PARAM, F, (), ParamArg(slot, 8)) for slot in range(2)]
AXIS = UOp.range(8, 0, AxisType.GLOBAL)
R = UOp.range(4, 1, AxisType.REDUCE)
OUT = UOp(Ops.INDEX, F, (MEMORY[0], AXIS))
X = UOp(Ops.LOAD, F, (UOp(Ops.INDEX, F, (MEMORY[1], AXIS)),))
LOCAL = UOp(Ops.DEFINE_LOCAL, F, (), ParamArg(0, 8))
PAIR = F.vec(2)
GROUP = UOp.range(4, 2, AxisType.GROUP)
CPU, CUDA, OPENCL = (get_target(name) for name in ("cpu", "cuda", "opencl"))


def kernel(value, *ranges):
    """A kernel that stores a value over ranges, by default over its one output axis."""
    return UOp.sink(UOp(Ops.STORE, VOID, (OUT, value, *(ranges or (AXIS,)))))


def over(kind, size=8, dtype=INDEX):
    """A kernel whose one axis is of this kind and size."""
    axis = UOp.range(size, 0, kind, dtype)
    return kernel(X).substitute({AXIS: axis})


def reduced(*ranges, value=X, op=Ops.ADD):
    return UOp(Ops.REDUCE, F, (value, *ranges), op)


def vector(count, *lanes):
    return UOp(Ops.VECTORIZE, F.vec(count), lanes)


def items(value):
    """The kernel with its axis as the number of a work item."""
    item = UOp(Ops.SPECIAL, INDEX, (UOp.index_const(8),), "gidx0")
    return UOp.sink(UOp(Ops.STORE, VOID, (OUT, value))).substitute({AXIS: item})


def sized(value):
    """The same with indices in a machine's format."""
    item = UOp(Ops.SPECIAL, INT, (UOp.const(INT, 8),), "gidx0")
    one = items(value)
    axis = next(n for n in one.toposort() if n.op is Ops.SPECIAL)
    return one.substitute({axis: item})


BROKEN = [
    (contracts.AST, kernel(UOp(Ops.ADD, F, (X, X.cast(INT)))), "format of the result"),
    (contracts.AST, kernel(UOp(Ops.CMPLT, B, (X, X.cast(INT))).cast(F)), "values of one format"),
    (contracts.AST, kernel(reduced(R, op=Ops.SUB)), "ADD, MUL, MAX or MIN"),
    (contracts.AST, kernel(reduced(R, value=X.cast(INT))), "values of its format"),
    (contracts.AST, kernel(UOp(Ops.SCAN, F, (X, X, X), Ops.ADD)), "over one RANGE"),
    (contracts.AST, kernel(X + R.cast(F)), "Every loop is closed"),
    (contracts.AST, kernel(UOp(Ops.CHECK, F, (X, X), 0)), "asks a bool"),
    (contracts.AST, kernel(UOp(Ops.CHECK, F, (X, UOp.const(B, True)), None)), "has a number"),
    (contracts.AST, kernel(UOp(Ops.LOAD, F, (MEMORY[1],))), "LOAD is of an INDEX"),
    (contracts.AST, UOp.sink(X), "holds STOREs"),
    (contracts.AST, UOp.sink(UOp(Ops.STORE, VOID, (OUT, X, AXIS, X))), "over RANGEs"),
    (contracts.AST, kernel(UOp(Ops.LOAD, F, (UOp(Ops.INDEX, F, (X, AXIS)),))), "is of memory"),
    (contracts.AST, kernel(UOp(Ops.LOAD, F, (UOp(Ops.INDEX, F, (MEMORY[1], X)),))), "integer"),
    (contracts.AST, kernel(UOp(Ops.LOAD, F, (OUT.replace(src=(*OUT.src, X)),))), "of bools"),
    (contracts.AST, kernel(vector(2, X, X)), "no vectors"),
    (contracts.AST, kernel(UOp(Ops.PARAM, F, (), 0)), "ParamArg"),
    (contracts.AST, kernel(UOp(Ops.RESHAPE, F, (X,), (8,))), "no clause"),
    (contracts.AST, over(AxisType.UPCAST), "GLOBAL, REDUCE or SERIAL"),
    (contracts.AST, over(AxisType.LOOP), "GLOBAL, REDUCE or SERIAL"),
    (contracts.AST, kernel(UOp(Ops.SQRT, PAIR, (UOp(Ops.LOAD, PAIR, (OUT,)),))), "no vectors"),
    (contracts.AST, kernel(X).substitute({MEMORY[1]: LOCAL}), "not there at this"),
    (contracts.NORMAL, over(AxisType.GLOBAL, 1), "one iteration"),
    (contracts.NORMAL, over(AxisType.LOCAL), "GLOBAL, LOOP, REDUCE or SERIAL"),
    (contracts.OPTIMISED, kernel(vector(2, X, X)), "no vectors"),
    (contracts.OPTIMISED, kernel(X + R.cast(F)), "Every loop is closed"),
    (contracts.WRITTEN_OUT, kernel(reduced(R, GROUP)), "not over both"),
    (contracts.WRITTEN_OUT, over(AxisType.UPCAST), "left to be written out"),
    (contracts.WRITTEN_OUT, over(AxisType.UNROLL), "left to be written out"),
    (contracts.WRITTEN_OUT, kernel(vector(2, X)), "for each lane"),
    (contracts.WRITTEN_OUT, kernel(UOp(Ops.GEP, F, (X,), (1,))), "lanes that there are"),
    (contracts.WRITTEN_OUT, kernel(UOp(Ops.GEP, F, (X, X), (2,))), "lanes that there are"),
    (contracts.WRITTEN_OUT, kernel(X.shuffle(X.broadcast(2), (0,))), "lanes that there are"),
    (contracts.WRITTEN_OUT, kernel(UOp(Ops.MUL, F, (X, vector(2, X, X)))), "format of the result"),
    (contracts.placed(CUDA), kernel(reduced(GROUP)), "their numbers"),
    (contracts.placed(CUDA), over(AxisType.GLOBAL), "their numbers"),
    (contracts.sized(CPU), over(AxisType.GLOBAL), "unbounded integers"),
    (contracts.decomposed(CUDA), sized(UOp(Ops.EXP, F, (X,))), "not there at this"),
    (contracts.decomposed(OPENCL), sized(X.cast(dtypes.float16).cast(F)), "not there at this"),
]  # fmt: skip
# Linear programs are lists.
LISTS = [
    (contracts.LINEAR, [UOp.const(INDEX, 1)], "unbounded integers"),
    (contracts.LINEAR, [UOp(Ops.LOAD, F, (MEMORY[0],))], "INDEX or a register"),
    (contracts.LINEAR, [UOp(Ops.SIN, F, (X,))], "not there at this"),
    (contracts.LINEAR, [kernel(X)], "no clause is about"),
]


@pytest.mark.parametrize(("contract", "root", "text"), BROKEN)
def test_broken_kernels_are_refused(contract, root, text):
    with pytest.raises(ContractError, match=text) as caught:
        contract.check(root)
    assert f"not allowed at stage {contract.name}: Ops." in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 13


@pytest.mark.parametrize(("contract", "nodes", "text"), LISTS)
def test_broken_programs_are_refused(contract, nodes, text):
    with pytest.raises(ContractError, match=text):
        contract.check_all(nodes)


def test_every_pass_has_a_contract():
    assert set(lower.CONTRACTS) == set(lower.PASSES)


@pytest.mark.parametrize("target", ["cpu", "cuda", "wgsl"])
def test_the_pass_that_broke_a_kernel_is_named(target, monkeypatch):
    """Each pass in turn leaves a node behind that no stage allows."""
    for broken in lower.PASSES:

        def breaks(state, step=broken):
            step(state)
            stray = UOp(Ops.FLIP, F, (MEMORY[0],), (True,))
            state.root, state.linear = UOp.sink(stray), state.linear and [stray]

        passes = [breaks if step is broken else step for step in lower.PASSES]
        found = {**lower.CONTRACTS, breaks: lower.CONTRACTS[broken]}
        monkeypatch.setattr(lower, "PASSES", passes)
        monkeypatch.setattr(lower, "CONTRACTS", found)
        contract = found[broken]
        name = (contract if isinstance(contract, Contract) else contract(get_target(target))).name
        with Context(CHECK=1), pytest.raises(ContractError, match=f"stage {name}: Ops\\.FLIP"):
            lower_kernel(kernel(X), get_target(target))
        monkeypatch.undo()


def test_contracts_are_checked_under_the_setting_only():
    broken = kernel(UOp(Ops.ADD, F, (X, X.cast(INT))))
    with Context(CHECK=1), pytest.raises(ContractError, match=r"stage ast: Ops\.ADD"):
        lower_kernel(broken, CPU)
    with Context(CHECK=0):
        assert lower_kernel(broken, CPU).linear
