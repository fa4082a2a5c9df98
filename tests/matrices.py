"""What tests of products of matrices share: operands, kernels, and the instructions written out."""

import re
from dataclasses import replace

import numpy as np

from torpor import Tensor
from torpor.base.dtypes import dtypes
from torpor.base.settings import Context
from torpor.device import Device
from torpor.device.machine import facts, machine
from torpor.ir.ops import Ops
from torpor.kernel.choose.plans import best_plans
from torpor.kernel.choose.products import apply_plan
from torpor.kernel.choose.ways import in_matrices
from torpor.kernel.opts.kernel import Kernel
from torpor.pipeline import program_for

AMX = facts(machine("amx"))
HERE = machine("amx").runs_here
FORMS = ["nn", "nt", "tn", "tt"]


def operand(name, shape, seed=0):
    """Numbers whose products and sums are exact in the sums' format."""
    generator = np.random.default_rng(seed)
    if name == "bfloat16":
        return generator.integers(-100, 101, shape).astype(dtypes.bfloat16.numpy)
    least, most = np.iinfo(name).min, np.iinfo(name).max
    made = generator.integers(least, most + 1, shape).astype(name)
    made.flat[:8] = least
    return made


def product(a, b, form="nn"):
    """a @ b in the format that sums are taken in; a letter t: it lies column by column."""
    x, y = (
        Tensor(np.ascontiguousarray(v.swapaxes(-1, -2))).realize().transpose(-1, -2)
        if letter == "t"
        else Tensor(v).realize()
        for v, letter in zip((a, b), form, strict=True)
    )
    wide = dtypes.float32 if a.dtype == dtypes.bfloat16.numpy else dtypes.int32
    return x.cast(wide) @ y.cast(wide)


def exact(a, b):
    wide = np.float32 if a.dtype == dtypes.bfloat16.numpy else np.int32
    return (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64).astype(wide)


def plans_for(item, target=AMX):
    """The kernel with the opts of every plan that multiplies matrices."""
    kernel = Kernel(item.ast, target)
    for trial, words, fragment in in_matrices(kernel):
        for _, plan in best_plans(trial, words):
            made = trial.copy()
            if apply_plan(made, plan, fragment):
                yield made


def last_item(result, target="amx"):
    with Context(TARGET=target):
        return result.schedule()[-1]


def memory_of(item):
    return [n.arg if n.arg.is_allocated() else n.arg.allocate() for n in item.buffers]


def interpreted(item, opts, target=AMX):
    """What the interpreter makes of a kernel."""
    program = program_for(item.ast, target, opts)
    assert any(node.op is Ops.MMA for node in program.linear)
    buffers = memory_of(item)
    Device["PYTHON"].executable(program, b"")(buffers)
    return np.array(buffers[0].numpy())


# --- the meaning of AMX's instructions, written out -----------------------------------------------
TILES = """@tiles = internal global [8192 x i8] zeroinitializer, align 64

define internal ptr @tile(i8 %number) {
  %wide = zext i8 %number to i64
  %at = getelementptr [1024 x i8], ptr @tiles, i64 %wide
  ret ptr %at
}

define internal void @written_ldtilecfg(ptr %at) {
  ret void
}

define internal void @written_tilerelease() {
  ret void
}

define internal void @written_tilezero(i8 %number) {
  %at = call ptr @tile(i8 %number)
  store <256 x i32> zeroinitializer, ptr %at
  ret void
}
"""
MOVED = """
define internal void @written_{name}(i8 %number, ptr %memory, i64 %apart) {{
entry:
  %tile = call ptr @tile(i8 %number)
  br label %loop
loop:
  %row = phi i64 [ 0, %entry ], [ %next, %loop ]
  %far = mul i64 %row, %apart
  %near = mul i64 %row, 64
  %there = getelementptr i8, ptr %memory, i64 %far
  %here = getelementptr i8, ptr %tile, i64 %near
  %words = load <16 x i32>, ptr %{source}, align 1
  store <16 x i32> %words, ptr %{target}, align 1
  %next = add i64 %row, 1
  %more = icmp ult i64 %next, 16
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""
MULTIPLIED = """
define internal void @written_{name}(i8 %sums, i8 %left, i8 %right) {{
entry:
  %to = call ptr @tile(i8 %sums)
  %x = call ptr @tile(i8 %left)
  %y = call ptr @tile(i8 %right)
  br label %loop
loop:
  %n = phi i64 [ 0, %entry ], [ %next, %loop ]
  %row = udiv i64 %n, 16
  %word = urem i64 %n, 16
  %xat = getelementptr i32, ptr %x, i64 %n
  %one = load {parts}, ptr %xat
  %line = mul i64 %word, 64
  %yat = getelementptr i8, ptr %y, i64 %line
  %all = load {all}, ptr %yat
  %high = mul i64 %row, 64
  %at = getelementptr i8, ptr %to, i64 %high
  %s0 = load {wide}, ptr %at
{terms}
  store {wide} %s{count}, ptr %at
  %next = add i64 %n, 1
  %more = icmp ult i64 %next, 256
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""
DECLARED = re.compile(r"declare void @llvm\.x86\.(\w+)\((.*)\)\n")


def multiplied(name):
    """The text of a product of tiles: row by row, word by word, part by part."""
    brain = name == "tdpbf16ps"
    count, part = (2, "bfloat") if brain else (4, "i8")
    wide = "<16 x float>" if brain else "<16 x i32>"
    lines = []
    for n in range(count):
        picks = ", ".join(f"i32 {count * lane + n}" for lane in range(16))
        every = f"<{16 * count} x {part}>"
        signs = ("fpext", "fpext") if brain else (f"{s}ext" for s in name[4:6].replace("u", "z"))
        first, second = signs
        lines += [
            f"  %a{n} = extractelement <{count} x {part}> %one, i64 {n}",
            f"  %b{n} = insertelement <16 x {part}> poison, {part} %a{n}, i64 0",
            f"  %c{n} = shufflevector <16 x {part}> %b{n}, <16 x {part}> poison, "
            "<16 x i32> zeroinitializer",
            f"  %d{n} = {first} <16 x {part}> %c{n} to {wide}",
            f"  %e{n} = shufflevector {every} %all, {every} poison, <16 x i32> <{picks}>",
            f"  %f{n} = {second} <16 x {part}> %e{n} to {wide}",
            f"  %p{n} = {'fmul' if brain else 'mul'} {wide} %d{n}, %f{n}",
            f"  %s{n + 1} = {'fadd' if brain else 'add'} {wide} %s{n}, %p{n}",
        ]
    return MULTIPLIED.format(
        name=name, parts=f"<{count} x {part}>", all=f"<{16 * count} x {part}>", wide=wide,
        terms="\n".join(lines), count=count,
    )  # fmt: skip


def written_out(text):
    """The text with functions in the place of AMX's instructions."""
    parts = [TILES]
    for name, _ in DECLARED.findall(text):
        if name.startswith("tdp"):
            parts.append(multiplied(name))
        elif name in ("tileloadd64", "tilestored64"):
            way = ("there", "here") if name == "tileloadd64" else ("here", "there")
            parts.append(MOVED.format(name=name, source=way[0], target=way[1]))
    plain = DECLARED.sub("", text).replace("@llvm.x86.t", "@written_t")
    return "\n".join([*parts, plain.replace("@llvm.x86.ldtilecfg", "@written_ldtilecfg")])


def emulated(item, opts):
    """What the text of a kernel gives, its instructions written out."""
    device, program = Device["CPU"], program_for(item.ast, AMX, opts)
    plain = replace(program, source=written_out(program.source))
    assert plain.source.count("@written_tdp") > 1
    buffers = memory_of(item)
    with Context(THREADS=1):
        device.executable(plain, device.compiler.compile(plain))(buffers)
    return np.array(buffers[0].numpy())
