"""Measure the error of every function that `kernel/decompose` writes out, in ulps.

A float32 function of one argument is tried on all 2**32 inputs, the others on random bits. The
decomposed expression becomes C by a renderer of its own (a few lines, so that no fault of
`source/` can hide here), is compiled by gcc once without and once with contraction into fused
multiply-adds, and both are compared with the C library one format wider (float64 for float32,
80-bit long double for float64, hence x86 only).

    python -m tools.check_ulp EXP LOG               all float32 inputs
    python -m tools.check_ulp --bits 64 EXP POW     random float64 inputs
    python -m tools.check_ulp --every 64 SIN        every 64th input
    python -m tools.check_ulp --target wgsl SIN     as decomposed for another target
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from torpor.base.dtypes import dtypes
from torpor.base.target import get_target
from torpor.ir import Ops, UOp, graph_rewrite
from torpor.kernel.decompose import rules_for

REFERENCES = {
    "EXP": "exp", "EXP2": "exp2", "LOG": "log", "LOG2": "log2", "SIN": "sin", "COS": "cos",
    "TANH": "tanh", "ERF": "erf", "POW": "pow", "MOD": "floored_remainder",
}  # fmt: skip
RANDOM_COUNT = 30_000_000

_INFIX = {
    Ops.ADD: "+", Ops.SUB: "-", Ops.MUL: "*", Ops.FDIV: "/", Ops.AND: "&", Ops.OR: "|",
    Ops.XOR: "^", Ops.SHL: "<<", Ops.SHR: ">>", Ops.CMPLT: "<", Ops.CMPNE: "!=", Ops.CMPEQ: "==",
}  # fmt: skip
_CALLS = {Ops.SQRT: "sqrt", Ops.FLOOR: "floor", Ops.TRUNC: "trunc", Ops.RINT: "rint"}


def c_type(node: UOp) -> str:
    """The C type of a scalar node."""
    dtype = node.dtype
    if dtype.is_float:
        return {32: "float", 64: "double"}[dtype.bits]
    return "int" if dtype is dtypes.bool else f"{dtype.name}_t"


def c_constant(node: UOp) -> str:
    """A constant by its value."""
    value = node.arg
    if node.dtype.is_float:
        if value != value:
            return "NAN"
        if value in (float("inf"), float("-inf")):
            return "INFINITY" if value > 0 else "-INFINITY"
        return f"(({c_type(node)}){float(value).hex()})"
    return f"(({c_type(node)}){int(value)}{'ULL' if node.dtype.kind == 'uint' else 'LL'})"


def c_expression(node: UOp, names: dict[UOp, str]) -> str:
    """One node in C, its operands by name."""
    source = [names[s] for s in node.src]
    if node.op in _INFIX:
        return f"{source[0]} {_INFIX[node.op]} {source[1]}"
    if node.op in _CALLS:
        return f"{_CALLS[node.op]}{'f' if node.dtype.bits == 32 else ''}({source[0]})"
    if node.op is Ops.WHERE:
        return f"{source[0]} ? {source[1]} : {source[2]}"
    if node.op is Ops.CAST:
        return f"({c_type(node)}){source[0]}"
    if node.op is Ops.BITCAST:
        kind = c_type(node)
        return f"(union {{ {c_type(node.src[0])} a; {kind} b; }}){{ {source[0]} }}.b"
    raise ValueError(f"no C for {node.op}")


def c_function(root: UOp, name: str, parameters: tuple[UOp, ...]) -> str:
    """`void name(const T* in0, ..., T* out, long n)` that computes `root` on arrays."""
    names = {p: f"p{k}" for k, p in enumerate(parameters)}
    lines = []
    for node in root.toposort():
        if node in names:
            continue
        if node.op is Ops.CONST:
            names[node] = c_constant(node)
            continue
        names[node] = f"v{len(names)}"
        lines.append(f"const {c_type(node)} {names[node]} = {c_expression(node, names)};")
    kind = c_type(parameters[0])
    heads = "".join(f"const {kind}* restrict in{k}, " for k in range(len(parameters)))
    loads = "".join(f"const {kind} p{k} = in{k}[i];\n" for k in range(len(parameters)))
    body = loads + "\n".join(lines) + f"\nout[i] = {names[root]};\n"
    header = "#include <stdint.h>\n#include <math.h>\n"
    return f"{header}void {name}({heads}{kind}* restrict out, long n) {{\n" + (
        f"for (long i = 0; i < n; i++) {{\n{body}}}\n}}\n"
    )


MAIN = r"""
#include <stdint.h>
#include <stdio.h>
#include <math.h>
#include <stdlib.h>
enum { CHUNK = 4096 };
typedef T_NARROW narrow;
typedef T_WIDE wide;
void plain(PROTOTYPE narrow* restrict, long);
void fused(PROTOTYPE narrow* restrict, long);
static wide floored_remainder(wide a, wide b) {
  wide r = fmodl(a, b);
  if (r == 0) return copysignl(r, b);
  return (r < 0) != (b < 0) ? r + b : r;
}
static double ulps(narrow found, wide exact) {
  if (isnan(found) || isnan(exact)) return isnan(found) && isnan(exact) ? 0 : INFINITY;
  narrow rounded = (narrow)exact;
  if (signbit(found) != signbit(rounded)) return INFINITY;
  if (found == rounded) return 0.5;  /* at most; the rest is slow and rarely needed */
  if (isinf(exact) || exact == 0) return INFINITY;
  int e;
  frexpl(exact, &e);
  int last = (e - 1 < LEAST ? LEAST : e - 1) - FRACTION;
  wide beyond = copysignl(ldexpl(1, -LEAST + 2), exact);
  wide difference = (isinf(found) ? beyond : (wide)found) - exact;
  return (double)ldexpl(fabsl(difference), -last);
}
static uint64_t state = 0x9E3779B97F4A7C15u;
static uint64_t draw(void) {  /* splitmix64 (G. Steele, D. Lea, C. Flood 2014) */
  uint64_t z = (state += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}
static narrow from_bits(uint64_t bits) {
  union { T_BITS b; narrow f; } u = { (T_BITS)bits };
  return u.f;
}
static narrow sample(int which) {
  uint64_t bits = draw();
  switch (draw() & 3) {
    case 0: return from_bits(bits);
    case 1: return (narrow)((double)(int64_t)bits * 0x1p-63 * (which ? 200 : 3));
    case 2: return (narrow)(1 + (double)(int64_t)bits * 0x1p-63 * (which ? 50 : 0.75));
    default: {
      double scale = ldexp(1, (int)(draw() % 20) - 10);
      return (narrow)((double)(int64_t)bits * 0x1p-63 * scale);
    }
  }
}
int main(void) {
  static narrow in[2][CHUNK], a[CHUNK], b[CHUNK];
  double worst[2] = {0, 0};
  narrow at[2][2] = {{0}};
  uint64_t above[2] = {0, 0}, done = 0;
  for (uint64_t start = 0; start < COUNT; start += CHUNK) {
    for (int i = 0; i < CHUNK; i++) {
      in[0][i] = EXHAUSTIVE ? from_bits((start + i) * EVERY) : sample(0);
      in[1][i] = EXHAUSTIVE ? 0 : sample(1);
    }
    plain(ARGUMENTS a, CHUNK);
    fused(ARGUMENTS b, CHUNK);
    for (int i = 0; i < CHUNK; i++) {
      if (REMAINDER && fabsl(in[0][i]) > 0x1p120L * fabsl(in[1][i])) continue;  /* documented */
      wide exact = REFERENCE;
      double error[2] = { ulps(a[i], exact), ulps(b[i], exact) };
      for (int k = 0; k < 2; k++) {
        above[k] += error[k] > 0.5;
        if (error[k] > worst[k]) { worst[k] = error[k]; at[k][0] = in[0][i]; at[k][1] = in[1][i]; }
      }
    }
    done += CHUNK;
  }
  for (int k = 0; k < 2; k++)
    printf("%.4f %a %a %.3f\n", worst[k], (double)at[k][0], (double)at[k][1],
           100.0 * above[k] / done);
  return 0;
}
"""


def main_text(name: str, bits: int, every: int) -> str:
    """The program that compares."""
    two = name in ("POW", "MOD")
    exhaustive = bits == 32 and not two
    library = REFERENCES[name] + ("l" if bits == 64 and name != "MOD" else "")
    arguments = "in[0][i], in[1][i]" if two else "in[0][i]"
    replacements = {
        "T_NARROW": "float" if bits == 32 else "double",
        "T_WIDE": "double" if bits == 32 else "long double",
        "T_BITS": f"uint{bits}_t",
        "PROTOTYPE": "const narrow* restrict, " * (2 if two else 1),
        "LEAST": "(-126)" if bits == 32 else "(-1022)",
        "FRACTION": "23" if bits == 32 else "52",
        "EXHAUSTIVE": str(int(exhaustive)),
        "EVERY": f"{every}ull",
        "COUNT": f"{2**32 // every if exhaustive else RANDOM_COUNT // every}ull",
        "ARGUMENTS": "in[0], in[1]," if two else "in[0],",
        "REMAINDER": str(int(name == "MOD" and bits == 64)),
        "REFERENCE": f"{library}({arguments})",
    }
    text = MAIN
    for key, value in replacements.items():
        text = text.replace(key, value)
    if bits == 32:  # the wide format is double: its own functions are faster
        for function in ("frexp", "ldexp", "fabs", "copysign", "fmod"):
            text = text.replace(f"{function}l(", f"{function}(")
    return text


def measure(name: str, bits: int, every: int, target: str) -> list[list[str]]:
    """[worst error, first argument, second argument, per cent above 0.5 ulp] plain and fused."""
    dtype = dtypes.float32 if bits == 32 else dtypes.float64
    count = 2 if name in ("POW", "MOD") else 1
    parameters = tuple(UOp(Ops.PARAM, dtype, (), k) for k in range(count))
    root = graph_rewrite(
        parameters[0].alu(Ops[name], *parameters[1:]), rules_for(get_target(target))
    )
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for function, contract in (("plain", "off"), ("fused", "fast")):
            source, made = Path(folder, f"{function}.c"), Path(folder, f"{function}.o")
            source.write_text(c_function(root, function, parameters))
            flags = [
                "-O3",
                "-mavx2",
                "-mfma",
                "-fno-math-errno",
                "-fno-trapping-math",
                f"-ffp-contract={contract}",
            ]
            subprocess.run(["gcc", *flags, "-c", source, "-o", made], check=True)
            paths.append(made)
        driver, program = Path(folder, "main.c"), Path(folder, "main")
        driver.write_text(main_text(name, bits, every))
        subprocess.run(["gcc", "-O2", driver, *paths, "-lm", "-o", program], check=True)
        output = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return [line.split() for line in output.splitlines()]


def main() -> None:
    """Measure what the command line names and print a Markdown row for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=sorted(REFERENCES))
    parser.add_argument("--bits", type=int, default=32, choices=(32, 64))
    parser.add_argument("--every", type=int, default=1, help="try one in so many inputs")
    parser.add_argument("--target", default="cpu")
    options = parser.parse_args()
    for name in options.names:
        start = time.perf_counter()
        rows = measure(name, options.bits, options.every, options.target)
        for kind, (worst, first, second, above) in zip(("plain", "fused"), rows, strict=True):
            where = first if name not in ("POW", "MOD") else f"{first}, {second}"
            print(
                f"| {name} | {options.bits} | {kind} | {worst} | {where} | {above} % |", flush=True
            )
        print(f"# {name}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
