"""Sums of products of small integers, four terms at a time, are exact modulo 2**32: by the meaning
of the instructions written in plain LLVM IR, and on AArch64 under an emulator.
"""

import re
from dataclasses import replace

import numpy as np
import pytest

from tests.device import emulator
from tests.device.test_aarch64 import needs_emulator
from torpor import Tensor
from torpor.base.dtypes import dtypes
from torpor.base.errors import OptError
from torpor.base.settings import Context
from torpor.device import Device
from torpor.device.llvm import LlvmCompiler
from torpor.device.machine import facts, machine
from torpor.ir.ops import Ops
from torpor.ir.records import Opt, OptOps
from torpor.kernel.choose.heuristics import choose
from torpor.kernel.opts.kernel import Kernel
from torpor.pipeline import program_for

AVX2 = "avx2,+avxvnni"
WIDE = "avx512,+avx512bw,+avx512vl,+avx512vnni"
ALL = "avx2,+avxvnni,+avxvnniint8"
ARM = "aarch64,+dotprod"
MIXED = "aarch64,+dotprod,+i8mm"
FORMS = ["plain", "left transposed", "right transposed"]


def random(name, shape, seed=0):
    least, most = np.iinfo(name).min, np.iinfo(name).max
    made = np.random.default_rng(seed).integers(least, most + 1, shape).astype(name)
    made.flat[:8] = least  # the greatest products too
    return made


def product(a, b, form="plain"):
    """The tensor a @ b in int32; an operand that is transposed lies in memory column by column."""
    x, y = Tensor(a).realize().int(), Tensor(b).realize().int()
    if form == "left transposed":
        x = Tensor(np.ascontiguousarray(a.T)).realize().T.int()
    if form == "right transposed":
        y = Tensor(np.ascontiguousarray(b.T)).realize().T.int()
    return x @ y


def exact(a, b):
    return (a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32)


def item_of(result):
    return result.schedule()[-1]


def quads(result, level):
    opts = choose(Kernel(item_of(result).ast, facts(machine(level))))
    return [(opt.op, opt.arg) for opt in opts].count((OptOps.DOT, 4))


# --- the meaning of x86's instructions, written out -----------------------------------------------
DECLARED = re.compile(r"declare <(\d+) x i32> @(llvm\.x86\.\w+\.vpdpb([us])([us])d\.\d+)\(.*\)")


def written_out(text):
    """The text with functions in the place of the instructions: in each lane, the products of four
    bytes added to a word.
    """
    found = DECLARED.search(text)
    if found is None:
        return text
    lanes, name, signs = int(found[1]), found[2], found[3] + found[4]
    word, bytes_, byte = f"<{lanes} x i32>", f"<{4 * lanes} x i8>", f"<{lanes} x i8>"
    lines = [f"define internal {word} @emulated({word} %s0, {word} %xw, {word} %yw) {{"]
    lines += [f"  %{v} = bitcast {word} %{v}w to {bytes_}" for v in "xy"]
    for n in range(4):
        picks = ", ".join(f"i32 {4 * lane + n}" for lane in range(lanes))
        for value, sign in zip("xy", signs, strict=True):
            wider = "sext" if sign == "s" else "zext"
            mask = f"<{lanes} x i32> <{picks}>"
            lines += [
                f"  %{value}b{n} = shufflevector {bytes_} %{value}, {bytes_} poison, {mask}",
                f"  %{value}{n} = {wider} {byte} %{value}b{n} to {word}",
            ]
        lines += [
            f"  %p{n} = mul {word} %x{n}, %y{n}",
            f"  %s{n + 1} = add {word} %s{n}, %p{n}",
        ]
    lines += [f"  ret {word} %s4", "}"]
    return DECLARED.sub("\n".join(lines), text).replace(f"@{name}(", "@emulated(")


def emulate(result, level, write=written_out):
    """What kernels for a processor that is not here give, its instructions written out, and how
    many kernels have such instructions.
    """
    with Context(TARGET=level):
        items = result.schedule()
    device, count = Device["CPU"], 0
    for item in items:
        program = program_for(item.ast, facts(machine(level)))
        plain = replace(program, source=write(program.source))
        count += plain.source != program.source
        buffers = [node.arg if node.arg.is_allocated() else node.arg.allocate()
                   for node in item.buffers]  # fmt: skip
        device.executable(plain, device.compiler.compile(plain))(buffers)
    return buffers[0].numpy().reshape(result.shape), count


@pytest.mark.parametrize(
    ("left", "right", "level", "form"),
    [("uint8", "int8", AVX2, FORMS[0]), ("uint8", "int8", AVX2, FORMS[1]),
     ("int8", "uint8", WIDE, FORMS[2]), ("int8", "int8", ALL, FORMS[0]),
     ("uint8", "uint8", ALL, FORMS[0]), ("int8", "int8", WIDE, FORMS[0])],
)  # fmt: skip
def test_vnni_by_the_meaning_of_its_instructions(left, right, level, form):
    """Two signed formats too: where there is no instruction for them, by an offset. The terms that
    fill no word are added one by one.
    """
    a, b = random(left, (272, 263)), random(right, (263, 272), 1)
    got, count = emulate(product(a, b, form), level)
    np.testing.assert_array_equal(got, exact(a, b))
    assert count == 1


def test_an_offset_and_what_follows_the_sum():
    """Two axes of the sum, the greatest products, and a scale in float32 after the sum."""
    a = np.full((272, 3, 512), -128, np.int8)
    b = random("int8", (3, 272, 512), 1)
    x = Tensor(a).realize().reshape(272, 1, 3, 512).int()
    y = Tensor(b).realize().permute(1, 0, 2).reshape(1, 272, 3, 512).int()
    result = (x * y).sum((2, 3), dtype=dtypes.int32).float() * 0.5
    got, count = emulate(result, WIDE)
    want = np.einsum("ikl,kjl->ij", a.astype(np.int64), b.astype(np.int64)).astype(np.int32)
    np.testing.assert_array_equal(got, want.astype(np.float32) * np.float32(0.5))
    assert count == 1


def test_what_is_added_to_a_sum_that_is_written_out():
    """An instruction adds to one word: two of them and a bias take an addition more."""
    a, b, bias = random("uint8", (162, 8)), random("int8", (8, 96)), random("int32", (162, 96))
    got, count = emulate(Tensor(bias).realize() + product(a, b), ALL)
    np.testing.assert_array_equal(got, exact(a, b) + bias)
    assert count == 1


@pytest.mark.parametrize(
    ("left", "right", "level", "instruction"),
    [("uint8", "int8", AVX2, "vpdpbusd"), ("int8", "int8", WIDE, "vpdpbusd"),
     ("int8", "int8", ALL, "vpdpbssd"), ("int8", "int8", ARM, "sdot")],
)  # fmt: skip
def test_the_instruction_is_all_there_is(left, right, level, instruction):
    """It adds to the sums itself, and nothing else multiplies."""
    a, b = Tensor.empty(256, 512, dtype=left), Tensor.empty(512, 256, dtype=right)
    with Context(TARGET=level):
        program = program_for(item_of(a.int() @ b.int()).ast, facts(machine(level)))
    text = LlvmCompiler(machine(level)).assembly(program)
    hot = max(text.split("BB0_"), key=lambda block: block.count(f"\t{instruction}\t"))
    dots = hot.count(f"\t{instruction}\t")
    assert dots >= 12
    assert len(re.findall(r"\t(?:vpaddd|vpmulld|vpmaddwd|add\tv|mul\tv)", hot)) == 0


# --- AArch64 --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("left", "right", "level"),
    [("int8", "int8", ARM), ("uint8", "uint8", ARM), ("int8", "uint8", MIXED)],
)
def test_arm_under_the_emulator(tmp_path, left, right, level):
    needs_emulator()
    emulated = emulator.Emulated(machine(level))
    wanted = []
    for form in FORMS[::2]:
        a, b = random(left, (160, 132)), random(right, (132, 104), 1)
        result = product(a, b, form)
        with Context(TARGET=level):
            assert quads(result, level) == 1
            item = item_of(result)
        buffers = [node.arg for node in item.buffers]
        emulated.add(program_for(item.ast, facts(machine(level))), buffers)
        wanted.append((buffers[0], exact(a, b)))
    emulated.run(tmp_path)
    for buffer, want in wanted:
        np.testing.assert_array_equal(emulated.held(buffer).reshape(want.shape), want)


# --- where the opt fits ---------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("left", "right", "terms", "level", "why"),
    [("int8", "int8", 64, AVX2, "no instruction"), ("int8", "uint8", 64, ARM, "no instruction"),
     ("uint8", "int8", 64, "avx2", "no instruction"), ("uint8", "int8", 3, AVX2, "whole words"),
     ("float32", "float32", 64, ALL, "no instruction")],
)  # fmt: skip
def test_refusals(left, right, terms, level, why):
    a = Tensor.empty(8, terms, dtype=getattr(dtypes, left)).int()
    b = Tensor.empty(terms, 8, dtype=getattr(dtypes, right)).int()
    kernel = Kernel(item_of(a @ b).ast, facts(machine(level)))
    with pytest.raises(OptError, match=f"DOT.*{why}"):
        kernel.apply_opt(Opt(OptOps.DOT, 0, 4))


def interpreted(item, opts):
    """What the interpreter gives for a kernel with these opts."""
    device = Device["PYTHON"]
    program = program_for(item.ast, device.target, opts)
    assert any(node.op is Ops.DOT for node in program.linear)
    buffers = [node.arg for node in item.buffers]
    buffers[0].allocate()
    device.executable(program, device.compiler.compile(program))(buffers)
    return buffers[0].numpy()


@pytest.mark.parametrize(
    ("left", "right", "terms"),
    [("int8", "uint8", 4), ("uint8", "uint8", 4), ("uint8", "int8", 2), ("int16", "int16", 2)],
)
def test_the_interpreter_knows_what_the_op_means(left, right, terms):
    a, b = random(left, (6, 64)), random(right, (64, 8), 1)
    got = interpreted(item_of(product(a, b)), [Opt(OptOps.DOT, 0, terms)])
    np.testing.assert_array_equal(got.reshape(6, 8), exact(a, b))


def test_scalars_have_no_instruction():
    """One word at a time is written out: no vector is there that the instruction could take."""
    a, b = random("int8", (6, 64)), random("uint8", (64, 8), 1)
    item = item_of(product(a, b))
    program = program_for(item.ast, facts(machine(WIDE)), [Opt(OptOps.DOT, 0, 4)])
    assert "vpdp" not in program.source
    device, buffers = Device["CPU"], [node.arg for node in item.buffers]
    buffers[0].allocate()
    device.executable(program, device.compiler.compile(program))(buffers)
    np.testing.assert_array_equal(buffers[0].numpy().reshape(6, 8), exact(a, b))


# --- bfloat16 -------------------------------------------------------------------------------------
BRAIN = "avx512,+avx512bf16"
BRAIN_ARM = "aarch64,+bf16"
BRAIN_DECLARED = re.compile(r"declare <(\d+) x float> @(llvm\.x86\.avx512bf16\.\w+\.\d+)\(.*\)")


def brain(shape, seed=0):
    """Whole numbers of bfloat16, of which float32 holds every sum that the tests take."""
    whole = np.random.default_rng(seed).integers(-100, 101, shape)
    return whole.astype(dtypes.bfloat16.numpy)


def brain_product(a, b, form="plain"):
    x, y = Tensor(a).realize(), Tensor(b).realize()
    if form == "left transposed":
        x = Tensor(np.ascontiguousarray(a.T)).realize().T
    if form == "right transposed":
        y = Tensor(np.ascontiguousarray(b.T)).realize().T
    return x.float() @ y.float()


def brain_written_out(text):
    """The text with a function in the place of vdpbf16ps."""
    found = BRAIN_DECLARED.search(text)
    if found is None:
        return text
    lanes, name = int(found[1]), found[2]
    float_, word, parts = (f"<{n} x {kind}>" for n, kind in
                           ((lanes, "float"), (lanes, "i32"), (2 * lanes, "bfloat")))  # fmt: skip
    lines = [f"define internal {float_} @emulated({float_} %s, {parts} %xp, {parts} %yp) {{"]
    for v in "xy":
        lines += [
            f"  %{v}w = bitcast {parts} %{v}p to {word}",
            f"  %{v}l = shl {word} %{v}w, splat (i32 16)",
            f"  %{v}h = and {word} %{v}w, splat (i32 -65536)",
            f"  %{v}0 = bitcast {word} %{v}l to {float_}",
            f"  %{v}1 = bitcast {word} %{v}h to {float_}",
        ]
    lines += [f"  %p{n} = fmul {float_} %x{n}, %y{n}" for n in range(2)]
    lines += [f"  %t = fadd {float_} %s, %p0", f"  %u = fadd {float_} %t, %p1"]
    lines += [f"  ret {float_} %u", "}"]
    return BRAIN_DECLARED.sub("\n".join(lines), text).replace(f"@{name}(", "@emulated(")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("terms", [256, 263])
def test_sums_of_products_of_bfloat16(form, terms):
    """Also of an odd number of terms, where the last is added by itself."""
    a, b = brain((272, terms)), brain((terms, 112), 1)
    got, count = emulate(brain_product(a, b, form), BRAIN, brain_written_out)
    np.testing.assert_array_equal(got, a.astype(np.float32) @ b.astype(np.float32))
    assert count == 1


def test_bfloat16_on_this_processor():
    """Whatever it has, the result is rounded once, from a sum in float32."""
    a, b = brain((150, 198)), brain((198, 131), 1)
    got = (Tensor(a).realize() @ Tensor(b).realize()).numpy()
    want = (a.astype(np.float32) @ b.astype(np.float32)).astype(dtypes.bfloat16.numpy)
    np.testing.assert_array_equal(got, want)


def test_a_matrix_and_its_own_transpose():
    """One memory, read as words on both sides."""
    a = brain((200, 128))
    x = Tensor(a).realize()
    got, count = emulate(x.float() @ x.float().T, BRAIN, brain_written_out)
    np.testing.assert_array_equal(got, a.astype(np.float32) @ a.astype(np.float32).T)
    assert count == 1


def test_memory_that_is_needed_in_its_own_format_too():
    a, b = brain((128, 128)), brain((128, 128), 1)
    x = Tensor(a).realize()
    got, count = emulate(x.float() @ Tensor(b).realize().float() + x, BRAIN, brain_written_out)
    single = a.astype(np.float32)
    np.testing.assert_array_equal(got, single @ b.astype(np.float32) + single)
    assert count == 1


def test_strict_floats_keep_denormal_numbers():
    a, b = Tensor.empty(256, 256, dtype="bfloat16"), Tensor.empty(256, 256, dtype="bfloat16")
    with Context(STRICT_FLOAT=1):
        opts = choose(Kernel(item_of(a @ b).ast, facts(machine(BRAIN))))
        assert OptOps.DOT not in [opt.op for opt in opts]
        small = np.full((64, 64), 2.0**-130, np.float32).astype(dtypes.bfloat16.numpy)
        got = (Tensor(small).realize() @ (Tensor.eye(64) * 2.0**100).bfloat16()).numpy()
    assert (got.astype(np.float32) == 2.0**-30).all()


@pytest.mark.parametrize(("level", "instruction"), [(BRAIN, "vdpbf16ps"), (BRAIN_ARM, "bfdot")])
def test_the_instruction_for_bfloat16(level, instruction):
    a, b = (Tensor.empty(256, 256, dtype="bfloat16") for _ in "ab")
    with Context(TARGET=level):
        program = program_for(item_of(a @ b).ast, facts(machine(level)))
    text = LlvmCompiler(machine(level)).assembly(program)
    hot = max(text.split("BB0_"), key=lambda block: block.count(f"\t{instruction}\t"))
    assert hot.count(f"\t{instruction}\t") >= 12
    assert len(re.findall(r"\t(?:vfmadd|vmulps|vaddps|fmla|fmul|fadd)", hot)) == 0


def test_bfloat16_on_arm_under_the_emulator(tmp_path):
    needs_emulator()
    emulated = emulator.Emulated(machine(BRAIN_ARM))
    a, b = brain((96, 132)), brain((132, 64), 1)
    with Context(TARGET=BRAIN_ARM):
        item = item_of(brain_product(a, b))
        program = program_for(item.ast, facts(machine(BRAIN_ARM)))
    assert "bfdot" in program.source
    buffers = [node.arg for node in item.buffers]
    emulated.add(program, buffers)
    emulated.run(tmp_path)
    got = emulated.held(buffers[0]).reshape(96, 64)
    np.testing.assert_array_equal(got, a.astype(np.float32) @ b.astype(np.float32))


def test_the_interpreter_and_bfloat16():
    a, b = brain((6, 64)), brain((64, 8), 1)
    got = interpreted(item_of(brain_product(a, b)), [Opt(OptOps.DOT, 0, 2)])
    np.testing.assert_array_equal(got.reshape(6, 8), a.astype(np.float32) @ b.astype(np.float32))
