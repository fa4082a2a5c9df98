import pytest

from tests.source import programs
from tests.source.programs import at, load, number, param, store
from torpor.base.dtypes import dtypes
from torpor.base.errors import ContractError
from torpor.ir import AxisType, Ops, UOp
from torpor.source import render
from torpor.source.cstyle_language import bare

C_LIKE = ["c", "cuda", "opencl", "metal"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(a+b)", "a+b"),
        ("(a)+(b)", "(a)+(b)"),
        ("a", "a"),
        ("((a)+(b))", "(a)+(b)"),
        ("f(a)", "f(a)"),
    ],
)
def test_bare_takes_only_parentheses_around_everything(text, expected):
    assert bare(text) == expected


@pytest.mark.parametrize("target", C_LIKE)
def test_users_integers_wrap_and_indices_stay_plain(target):
    loop = UOp.range(8, 0, dtype=dtypes.int32)
    a, out = param(1, dtypes.int32), param(0, dtypes.int32)
    value = load(at(a, loop + 1)) + 7
    text = render([out, a, loop, store(at(out, loop), value), UOp.end(loop)], target, "f")
    assert "data1[ridx0+1]" in text
    unsigned = "uint" if target in ("opencl", "metal") else "unsigned int"
    assert f"(int)(({unsigned})val0+({unsigned})7)" in text


@pytest.mark.parametrize("target", [*C_LIKE, "wgsl"])
def test_a_size_known_at_launch_bounds_a_loop(target):
    size = UOp(Ops.VARIABLE, dtypes.int32, (), ("v0", 0, 48))
    loop = UOp.range(size, 0, AxisType.LOOP, dtypes.int32)
    out = param(0, dtypes.float32)
    place = at(out, loop)
    text = render([out, size, loop, store(place, UOp.const(dtypes.float32, 1.5)), UOp.end(loop)],
                  target, "fill")  # fmt: skip
    assert "ridx0 < v0; ridx0++) {" in text
    assert "data0[ridx0] = 1.5f;" in text


@pytest.mark.parametrize("target", C_LIKE)
def test_long_expressions_are_cut_into_named_parts(target):
    value = load(at(param(1, dtypes.float32), number(0)))
    total = value
    for n in range(60):
        total = total * 2.0 + float(n)
    text = render([store(at(param(0, dtypes.float32), number(0)), total)], target, "long_chain")
    assert max(map(len, text.splitlines())) < 250
    assert text.count("*2.0f") == 60


@pytest.mark.parametrize("target", [*C_LIKE, "wgsl"])
@pytest.mark.parametrize("name", ["data0", "error"])
def test_a_variable_cannot_take_a_parameters_name(target, name):
    size = UOp(Ops.VARIABLE, dtypes.int32, (), (name, 0, 4))
    loop = UOp.range(size, 0, AxisType.LOOP, dtypes.int32)
    out = programs.param(0, dtypes.float32)
    linear = [out, size, loop, store(at(out, loop), UOp.const(out.dtype, 1.0)), UOp.end(loop)]
    with pytest.raises(ContractError, match=name):
        render(linear, target, "fill")
