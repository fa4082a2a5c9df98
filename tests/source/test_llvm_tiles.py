"""Products of matrices as text and as machine code for processors with AMX, whichever is here."""

import re

import numpy as np
import pytest

from tests import matrices
from torpor.base.dtypes import dtypes
from torpor.base.errors import ContractError
from torpor.base.settings import Context
from torpor.base.target import TILES
from torpor.device.llvm import LlvmCompiler
from torpor.device.machine import machine
from torpor.ir.ops import Ops
from torpor.ir.records import ParamArg, Rows
from torpor.ir.uop import UOp
from torpor.kernel.choose.heuristics import choose
from torpor.kernel.opts.kernel import Kernel
from torpor.pipeline import program_for
from torpor.source import RENDERERS


def program(left="bfloat16", right="bfloat16", rows=256, summed=512, columns=256):
    a, b = matrices.operand(left, (rows, summed)), matrices.operand(right, (summed, columns), 1)
    item = matrices.last_item(matrices.product(a, b))
    opts = choose(Kernel(item.ast, matrices.AMX))
    return program_for(item.ast, matrices.AMX, opts)


@pytest.mark.parametrize(
    ("left", "right", "instruction"),
    [("bfloat16", "bfloat16", "tdpbf16ps"), ("int8", "int8", "tdpbssd"),
     ("uint8", "int8", "tdpb(us|su)d"), ("uint8", "uint8", "tdpbuud")],
)  # fmt: skip
def test_the_innermost_loop_is_four_products_and_four_reads(left, right, instruction):
    """And nothing of it goes through memory: every sum stays in its register."""
    assembly = LlvmCompiler(machine("amx")).assembly(program(left, right))
    bodies = re.split(r"\n\.LBB", assembly)
    (body,) = [text for text in bodies if "tdpb" in text]
    assert len(re.findall(rf"\t{instruction}\t", body)) == 4
    assert body.count("\ttileloadd\t") == 4
    assert "tilestored" not in body.split("tdpb")[2]
    assert len(set(re.findall(r"%tmm\d", body))) <= 8


def test_tiles_are_configured_and_released_in_each_function():
    text = program().source
    assert text.count("call void @llvm.x86.ldtilecfg") == 1
    assert text.count("call void @llvm.x86.tilerelease") == 1
    assert text.index("ldtilecfg") < text.index("tilezero") < text.index("tilestored64")
    assert "x86.tilerelease()\n  ret void" in text


def test_what_multiplies_no_matrices_leaves_tiles_alone():
    item = matrices.last_item(matrices.product(*2 * [matrices.operand("int8", (8, 8))]))
    assert "tile" not in program_for(item.ast, matrices.AMX).source


# --- registers ------------------------------------------------------------------------------------
FRAGMENT = TILES["amx-int8"][0]
INT = dtypes.int32
WORDS = INT.vec(256)


def index(memory, position):
    return UOp(Ops.INDEX, INT, (memory, UOp.const(INT, position)))


def read(memory, position):
    return UOp(Ops.LOAD, WORDS, (index(memory, position),), Rows(16, 16))


def text_of(nodes):
    return RENDERERS["cpu"](matrices.AMX).render("f", nodes)


def test_matrices_that_are_needed_at_once_have_registers_of_their_own():
    memory = UOp(Ops.PARAM, INT, (), ParamArg(0, 1 << 14))
    loads = [read(memory, 256 * n) for n in range(4)]
    one = UOp(Ops.MMA, WORDS, (loads[0], loads[1]), FRAGMENT)
    two = UOp(Ops.MMA, WORDS, (loads[2], loads[3], one), FRAGMENT)
    stored = UOp(Ops.STORE, dtypes.void, (index(memory, 0), two), Rows(16, 16))
    text = text_of([*loads, one, two, stored])
    found = [int(n) for n in re.findall(r"tileloadd64\(i8 (\d)", text)]
    assert len(set(found)) == 4
    (first, second) = re.findall(r"tdpbssd\(i8 (\d), i8 (\d), i8 (\d)\)", text)
    assert first[0] == second[0] not in map(str, found)
    assert [first[1:], second[1:]] == [tuple(map(str, found[:2])), tuple(map(str, found[2:]))]


def test_too_many_matrices_are_refused():
    memory = UOp(Ops.PARAM, INT, (), ParamArg(0, 1 << 14))
    loads = [read(memory, 256 * n) for n in range(9)]
    sums = [UOp(Ops.MMA, WORDS, (a, loads[0]), FRAGMENT) for a in loads]
    with pytest.raises(ContractError, match="more matrices"):
        text_of([*loads, *sums])


def test_matrices_are_only_multiplied_and_moved():
    memory = UOp(Ops.PARAM, INT, (), ParamArg(0, 1 << 14))
    load = read(memory, 0)
    one = UOp(Ops.MMA, WORDS, (load, load), FRAGMENT)
    with pytest.raises(ContractError, match="ADD of matrices"):
        text_of([load, one, UOp(Ops.ADD, WORDS, (one, one))])


# --- where there are tiles ------------------------------------------------------------------------
needs_tiles = pytest.mark.skipif(not matrices.HERE, reason="this processor has no AMX")


@needs_tiles
@pytest.mark.parametrize("form", matrices.FORMS)
@pytest.mark.parametrize(
    ("left", "right"), [("bfloat16",) * 2, ("int8", "int8"), ("int8", "uint8")]
)
@pytest.mark.parametrize("threads", [1, 2])
def test_products_here(left, right, form, threads):
    a, b = matrices.operand(left, (300, 520)), matrices.operand(right, (520, 260), 1)
    with Context(TARGET="amx", THREADS=threads):
        got = matrices.product(a, b, form).numpy()
    np.testing.assert_array_equal(got, matrices.exact(a, b))


@needs_tiles
def test_infinities_and_nans_go_where_they_would_by_single_products():
    a, b = matrices.operand("bfloat16", (70, 130)), matrices.operand("bfloat16", (130, 90), 1)
    a[3, 5], a[40, 129], b[0, 89], b[129, 0] = np.inf, np.nan, -np.inf, np.inf
    with Context(TARGET="amx"):
        item = matrices.product(a, b)
        got = item.numpy()
    with np.errstate(invalid="ignore"):
        want = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_array_equal(got, want)


@needs_tiles
def test_threads_of_the_program_multiply_beside_each_other():
    """Each configures its own tiles, and other kernels run in between."""
    import threading

    a, b = matrices.operand("int8", (128, 256)), matrices.operand("int8", (256, 128), 1)
    want, wrong = matrices.exact(a, b), []

    def multiply():
        for _ in range(20):
            with Context(TARGET="amx"):
                made = matrices.product(a, b)
                if not (made.numpy() == want).all() or not ((made + 1).numpy() == want + 1).all():
                    wrong.append(made)

    threads = [threading.Thread(target=multiply) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@needs_tiles
def test_another_library_may_use_the_tiles_in_between():
    torch = pytest.importorskip("torch")
    a, b = matrices.operand("bfloat16", (256, 256)), matrices.operand("bfloat16", (256, 256), 1)
    x, y = (torch.tensor(v.astype(np.float32)).bfloat16() for v in (a, b))
    theirs = (x @ y).float().numpy()
    for _ in range(5):
        with Context(TARGET="amx"):
            np.testing.assert_array_equal(matrices.product(a, b).numpy(), matrices.exact(a, b))
        np.testing.assert_array_equal((x @ y).float().numpy(), theirs)
