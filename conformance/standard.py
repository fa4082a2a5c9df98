"""`python -m conformance.standard`: the array API standard beside `array_api_strict`.

Every function of the standard, on every format that it takes, on arrays of generated shapes (also
empty and 0-d) and values (also NaN, infinities, signed zeros, the largest and the least numbers),
with arguments that are drawn too. What both give has the same shapes, formats and values; what is
an error there may be anything here, since the standard leaves it open.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float32", "float64")
COMPLEX = ("complex64", "complex128")
EVERY = ("bool", *INTEGERS, *FLOATS, *COMPLEX)
ONE = tuple(
    """
    abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag
    isfinite isinf isnan log log1p log2 log10 logical_not negative positive real reciprocal round
    sign signbit sin sinh square sqrt tan tanh trunc
    """.split()  # noqa: SIM905 (a table that is read)
)
TWO = tuple(
    """
    add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign
    divide equal floor_divide greater greater_equal hypot less less_equal logaddexp logical_and
    logical_or logical_xor maximum minimum multiply nextafter not_equal pow remainder subtract
    """.split()  # noqa: SIM905 (a table that is read)
)
SUMS = tuple(
    """
    sum prod max min mean std var all any argmax argmin count_nonzero cumulative_sum
    cumulative_prod
    """.split()  # noqa: SIM905 (a table that is read)
)
TRANSFORMS = tuple(
    """
    fft ifft fftn ifftn rfft rfftn irfft irfftn hfft ihfft fftshift ifftshift
    """.split()  # noqa: SIM905 (a table that is read)
)

Function = Callable[..., Any]


class Sweep:
    """Counts what agrees, and keeps what does not by the function's name."""

    def __init__(self, theirs: Any, ours: Any, seed: int):
        self.theirs, self.ours = theirs, ours
        self.random = np.random.default_rng(seed)
        self.passed: dict[str, int] = {}
        self.failed: dict[str, list[str]] = {}

    def compare(
        self, name: str, function: Function, *arrays: Any, note: Any = "", open: bool = False
    ) -> None:
        """`function(namespace, *arrays)` in both namespaces; where it is `open` the standard leaves
        to a library how wide a default format is.
        """
        try:
            expected = function(self.theirs, *[self.theirs.asarray(one) for one in arrays])
        except Exception:
            return
        try:
            made = function(self.ours, *[self.ours.asarray(one) for one in arrays])
            problem = differs(expected, made, 3e-6 if open else precision(arrays), open)
        except Exception as error:
            problem = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        if problem:
            self.failed.setdefault(name, []).append(f"{note}: {problem}"[:160])
        else:
            self.passed[name] = self.passed.get(name, 0) + 1

    # --- what is drawn ----------------------------------------------------------------------------
    def shape(self) -> tuple[int, ...]:
        """Up to three axes, of 0 to 5 elements."""
        axes = int(self.random.integers(0, 4))
        return tuple(
            int(n) for n in self.random.choice([0, 1, 2, 3, 5], axes, p=[0.1, *[0.225] * 4])
        )

    def array(self, name: str, shape: tuple[int, ...] | None = None, mild: bool = False) -> Any:
        """Numbers of a format; extreme ones among them unless `mild`."""
        shape = self.shape() if shape is None else shape
        dtype, random = np.dtype(name), self.random
        if dtype.kind == "b":
            return random.integers(0, 2, shape).astype(dtype)
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            made = random.integers(0 if dtype.kind == "u" else -9, 10, shape).astype(dtype)
            extremes = [limits.max, limits.min, 0, 1]
        elif dtype.kind == "f":
            limits = np.finfo(dtype)
            made = (random.normal(size=shape) * 3).astype(dtype)
            extremes = [0.0, -0.0, np.nan, np.inf, -np.inf, limits.max, limits.tiny, 0.5, -1.0]
        else:
            parts = [self.array(f"float{dtype.itemsize * 4}", shape, mild) for _ in range(2)]
            return (parts[0] + 1j * parts[1] if mild else _joined(*parts)).astype(dtype)
        if mild:
            return made
        chosen = np.asarray(random.choice(np.array(extremes, dtype), shape))
        return np.where(random.random(shape) < 0.3, chosen, made).astype(dtype)

    def axis(self, shape: tuple[int, ...]) -> int | None:
        """One of the axes, from either end."""
        return int(self.random.integers(-len(shape), len(shape))) if shape else None


def _joined(real: Any, imag: Any) -> Any:
    made = np.empty(real.shape, np.result_type(real.dtype, np.complex64))
    made.real, made.imag = real, imag
    return made


def precision(arrays: Any) -> float:
    """The relative difference that is allowed."""
    narrow = any(getattr(one, "dtype", None) in ("float32", "complex64") for one in arrays)
    return 3e-6 if narrow else 1e-12


def differs(expected: Any, made: Any, tolerance: float, open: bool = False) -> str:
    """How what torpor gives differs; "" if it does not."""
    if isinstance(expected, tuple | list):
        if len(expected) != len(made):
            return f"{len(made)} results, not {len(expected)}"
        parts = (
            differs(one, other, tolerance, open) for one, other in zip(expected, made, strict=True)
        )
        return next((part for part in parts if part), "")
    if isinstance(expected, bool | int | float | complex | str | None):
        return "" if expected == made else f"{made}, not {expected}"
    if not hasattr(expected, "shape"):
        one, other = (str(x).rpartition(".")[2] for x in (expected, made))
        return "" if one == other else f"{other}, not {one}"
    wanted, found = np.asarray(expected._array), made.numpy()
    if open and wanted.dtype.kind == found.dtype.kind:
        found = found.astype(wanted.dtype)
    if (wanted.shape, wanted.dtype) != (found.shape, found.dtype):
        return f"{found.dtype} {found.shape}, not {wanted.dtype} {wanted.shape}"
    same = wanted == found
    if wanted.dtype.kind in "fc":
        wrong = tolerance * max(float(np.abs(wanted[np.isfinite(wanted)]).max(initial=0)), 1e-30)
        with np.errstate(all="ignore"):
            same = same | np.isclose(found, wanted, tolerance, wrong, equal_nan=True)
        if wanted.dtype.kind == "c":  # a number with a NaN is one of many spellings of NaN
            same = same | (np.isnan(wanted) & np.isnan(found))
    if same.all():
        return ""
    place = np.unravel_index(np.argmin(same), same.shape)
    return f"{found[place]}, not {wanted[place]}"


# --- what is compared -----------------------------------------------------------------------------
def elements(sweep: Sweep, name: str) -> None:
    """Functions of elements, of one operand and of two that are broadcast, and of numbers."""
    for function in ONE:
        sweep.compare(function, lambda x, a, f=function: getattr(x, f)(a), sweep.array(name),
                      note=name)  # fmt: skip
    for function in TWO:
        shape = sweep.shape()
        other = tuple(1 if sweep.random.random() < 0.3 else n for n in shape)
        a, b = sweep.array(name, shape), sweep.array(name, other)
        if name in INTEGERS and function in ("floor_divide", "remainder"):
            b = np.where(b == 0, 1, b).astype(name)
        if name in INTEGERS and ("shift" in function or function == "pow"):
            b = sweep.random.integers(0, 4, other).astype(name)
        sweep.compare(function, lambda x, a, b, f=function: getattr(x, f)(a, b), a, b, note=name)
        number = True if name == "bool" else 2
        sweep.compare(function, lambda x, a, f=function, n=number: getattr(x, f)(a, n), a,
                      note=name)  # fmt: skip
    low, high = (0, 5) if name in INTEGERS else (-1.5, 2.0)
    sweep.compare("clip", lambda x, a: x.clip(a, low, high), sweep.array(name), note=name)


def sums(sweep: Sweep, name: str) -> None:
    """Reductions, along an axis or all, and sorting, sets and searching."""
    for function in SUMS:
        shape = sweep.shape()
        options = {"axis": sweep.axis(shape)}
        if "cumulative" not in function and function != "count_nonzero":
            options["keepdims"] = bool(sweep.random.integers(2))
        a = sweep.array(name, shape, mild=function in ("prod", "cumulative_prod", "std", "var"))
        sweep.compare(function, lambda x, a, f=function, o=options: getattr(x, f)(a, **o), a,
                      note=(name, shape, options))  # fmt: skip
    for function in ("sort", "argsort"):
        shape = (*sweep.shape(), 4)
        options = {"axis": sweep.axis(shape), "descending": bool(sweep.random.integers(2))}
        sweep.compare(function, lambda x, a, f=function, o=options: getattr(x, f)(a, **o),
                      sweep.array(name, shape, mild=True), note=(name, shape, options))  # fmt: skip
    for function in ("unique_all", "unique_counts", "unique_inverse", "unique_values"):
        sweep.compare(function, lambda x, a, f=function: getattr(x, f)(a),
                      sweep.array(name, mild=True), note=name)  # fmt: skip
    row = np.sort(sweep.array(name, (5,), mild=True))
    for side in ("left", "right"):
        sweep.compare("searchsorted", lambda x, a, b, s=side: x.searchsorted(a, b, side=s), row,
                      sweep.array(name, (4,), mild=True), note=name)  # fmt: skip


def moved(sweep: Sweep, name: str) -> None:
    """Manipulations, indexing, and what makes arrays like others."""
    shape = (*sweep.shape(), 2, 3)
    axis, shift = sweep.axis(shape) or 0, int(sweep.random.integers(-4, 5))
    order = tuple(int(n) for n in sweep.random.permutation(len(shape)))
    a = sweep.array(name, shape)
    functions: dict[str, Function] = {
        "astype": lambda x, a: [x.astype(a, getattr(x, other)) for other in castable(a)],
        "broadcast_to": lambda x, a: x.broadcast_to(a, (2, *shape)),
        "concat": lambda x, a: [x.concat([a, a], axis=axis), x.concat([a, a], axis=None)],
        "diff": lambda x, a: x.diff(a, axis=axis),
        "expand_dims": lambda x, a: x.expand_dims(a, axis=axis),
        "flip": lambda x, a: [x.flip(a, axis=axis), x.flip(a)],
        "full_like": lambda x, a: x.full_like(a, 1),
        "isdtype": lambda x, a: [x.isdtype(a.dtype, k) for k in ("numeric", "integral", "bool")],
        "isin": lambda x, a: x.isin(a, x.reshape(a, (-1,))[:2]),
        "matmul": lambda x, a: x.matmul(a, x.matrix_transpose(a)),
        "moveaxis": lambda x, a: x.moveaxis(a, axis, 0),
        "nonzero": lambda x, a: x.nonzero(a),
        "ones_like": lambda x, a: [x.ones_like(a), x.zeros_like(a)],
        "permute_dims": lambda x, a: x.permute_dims(a, order),
        "repeat": lambda x, a: x.repeat(a, 2, axis=axis),
        "reshape": lambda x, a: x.reshape(a, (-1,)),
        "roll": lambda x, a: [x.roll(a, shift, axis=axis), x.roll(a, shift)],
        "squeeze": lambda x, a: x.squeeze(x.expand_dims(a, axis=axis), axis=axis),
        "stack": lambda x, a: x.stack([a, a], axis=axis),
        "take": lambda x, a: x.take(a, x.asarray([0, 1, 0]), axis=-1),
        "take_along_axis": lambda x, a: x.take_along_axis(a, x.argsort(x.real(a) if is_complex(a)
                                                          else a, axis=-1), axis=-1),
        "tensordot": lambda x, a: x.tensordot(a, x.matrix_transpose(a), axes=1),
        "tile": lambda x, a: x.tile(a, (2, 1)),
        "tril": lambda x, a: [x.tril(a, k=shift), x.triu(a, k=shift)],
        "unstack": lambda x, a: x.unstack(a, axis=axis),
        "vecdot": lambda x, a: x.vecdot(a, a, axis=-1),
        "where": lambda x, a: x.where(a == a, a, x.zeros_like(a)),
        "getitem": lambda x, a: [a[..., 0], a[..., ::-1, 1:], a[None, ...], a[a == a]],
        "operators": lambda x, a: [a + a, a * a, a - a, -a, abs(a), a == a, a != a],
    }  # fmt: skip
    mild = sweep.array(name, shape, mild=True)
    for function, meaning in functions.items():
        is_sum = function in ("matmul", "tensordot", "vecdot", "operators", "take_along_axis")
        sweep.compare(function, meaning, mild if is_sum else a, note=(name, shape))


def castable(array: Any) -> tuple[str, ...]:
    """The formats that a cast to is defined for, whatever the numbers are."""
    name = str(array.dtype).rpartition(".")[2]
    if name in COMPLEX:
        return COMPLEX
    return (*FLOATS, *COMPLEX) if name in FLOATS else EVERY


def is_complex(array: Any) -> bool:
    return "complex" in str(array.dtype)


def algebra(sweep: Sweep, name: str) -> None:
    """Matrices, stacks of them, and Fourier transforms."""
    rows = int(sweep.random.integers(1, 5))
    m = sweep.array(name, (2, rows, rows), mild=True)
    m = (m @ np.conj(np.swapaxes(m, -1, -2)) + np.eye(rows) * 3).astype(name)
    functions: dict[str, Function] = {
        "cholesky": lambda x, a: x.linalg.cholesky(a),
        "cross": lambda x, a: x.linalg.cross(x.broadcast_to(a[..., :1], (2, rows, 3)),
                                             x.ones((2, rows, 3), dtype=a.dtype)),
        "det": lambda x, a: x.linalg.det(a),
        "diagonal": lambda x, a: x.linalg.diagonal(a, offset=1),
        "eigh": lambda x, a: x.linalg.eigh(a)[0],
        "eigvalsh": lambda x, a: x.linalg.eigvalsh(a),
        "inv": lambda x, a: x.linalg.inv(a),
        "matrix_norm": lambda x, a: [x.linalg.matrix_norm(a, ord=o) for o in
                                     ("fro", "nuc", 1, -1, 2, -2, float("inf"))],
        "matrix_power": lambda x, a: [x.linalg.matrix_power(a, n) for n in (0, 1, 3, -1)],
        "matrix_rank": lambda x, a: x.linalg.matrix_rank(a),
        "outer": lambda x, a: x.linalg.outer(a[0, 0, :], a[0, 0, :]),
        "pinv": lambda x, a: x.linalg.pinv(a),
        "qr": lambda x, a: x.matmul(*x.linalg.qr(a)),
        "slogdet": lambda x, a: x.linalg.slogdet(a),
        "solve": lambda x, a: x.linalg.solve(a, a),
        "svd": lambda x, a: x.linalg.svd(a, full_matrices=False)[1],
        "svdvals": lambda x, a: x.linalg.svdvals(a),
        "trace": lambda x, a: x.linalg.trace(a, offset=-1),
        "vector_norm": lambda x, a: [x.linalg.vector_norm(a, axis=-1, ord=o) for o in
                                     (0, 1, 2, 3, float("inf"), -float("inf"))],
    }  # fmt: skip
    for function, meaning in functions.items():
        sweep.compare(f"linalg.{function}", meaning, m, note=(name, rows))
    for function in TRANSFORMS:
        a = sweep.array(name, (3, rows + 1), mild=True)
        sweep.compare(f"fft.{function}", lambda x, a, f=function: getattr(x.fft, f)(a), a,
                      note=(name, rows))  # fmt: skip


def made(sweep: Sweep) -> None:
    """Functions that make arrays, and those of formats."""
    start, stop, step = (int(n) for n in sweep.random.integers(1, 9, 3))
    count = int(sweep.random.integers(0, 6))
    functions: dict[str, Function] = {
        "arange": lambda x: [x.arange(stop), x.arange(start, stop, step), x.arange(9, start, -1.5),
                             x.arange(stop, dtype=x.uint8)],
        "linspace": lambda x: [x.linspace(start, stop, count),
                               x.linspace(start, stop, count, endpoint=False),
                               x.linspace(0, 1, count, dtype=x.float64)],
        "eye": lambda x: [x.eye(stop), x.eye(start, stop, k=step - 4, dtype=x.int8)],
        "full": lambda x: [x.full((count,), 3), x.full((count,), 3.0), x.full((), True),
                           x.full((2,), 1j)],
        "zeros": lambda x: [x.zeros((count, 2)), x.ones(count, dtype=x.int16)],
        "meshgrid": lambda x: [x.meshgrid(x.arange(start), x.arange(stop), indexing=i)
                               for i in ("xy", "ij")],
        "asarray": lambda x: [x.asarray([1, 2]), x.asarray([[1.0], [2]]), x.asarray(True),
                              x.asarray([1, 2j])],
        "broadcast_arrays": lambda x: x.broadcast_arrays(x.arange(start), x.zeros((stop, 1))),
        "fft.fftfreq": lambda x: [x.fft.fftfreq(stop), x.fft.rfftfreq(stop, d=0.5)],
    }  # fmt: skip
    for function, meaning in functions.items():
        sweep.compare(function, meaning, note=(start, stop, step, count), open=True)


def formats(sweep: Sweep) -> None:
    """Promotion, casts and limits of all pairs of formats."""
    for pair in itertools.product(EVERY, EVERY):
        sweep.compare("can_cast", lambda x, p=pair: x.can_cast(*named(x, p)), note=pair)
        sweep.compare("result_type", lambda x, p=pair: x.result_type(*named(x, p)), note=pair)
    floats = ("bits", "eps", "max", "min", "smallest_normal")
    for function, names, limits in (
        ("finfo", (*FLOATS, *COMPLEX), floats), ("iinfo", INTEGERS, ("bits", "max", "min")),
    ):  # fmt: skip
        for name in names:
            sweep.compare(function, lambda x, f=function, n=name, m=limits: [
                getattr(getattr(x, f)(getattr(x, n)), one) for one in m], note=name)  # fmt: skip


def named(namespace: Any, names: Any) -> list[Any]:
    """A namespace's formats of these names."""
    return [getattr(namespace, name) for name in names]


def written(sweep: Sweep, missing: list[str], rounds: int) -> str:
    """The sweep as a part of the page."""
    good, bad = sum(sweep.passed.values()), sum(map(len, sweep.failed.values()))
    share = 100 * good / max(good + bad + len(missing), 1)
    functions = {*sweep.passed, *sweep.failed}
    lines = [
        "## The array API standard",
        "",
        f"`torpor.array_api` beside array_api_strict: {len(functions)} functions on generated "
        f"arrays of every format, {rounds} rounds; written by `python -m conformance.standard`.",
        "",
        f"{good} of {good + bad} comparisons agree ({share:.1f} %); "
        f"{len(functions) - len(sweep.failed)} of {len(functions)} functions agree in all of them.",
        "",
        "### Differs",
        "",
        *(f"- `{name}` ({len(found)}): {found[0]}" for name, found in sorted(sweep.failed.items())),
        "",
        "### Missing from the standard's names",
        "",
        " ".join(missing) or "None.",
        "",
    ]
    return "\n".join(lines)


def main() -> int:
    """Run the sweep; the exit status is 0 also where what it needs is not installed."""
    if importlib.util.find_spec("array_api_strict") is None:
        print("conformance.standard needs array_api_strict: nothing was compared")
        return 0
    import array_api_strict as theirs

    import torpor.array_api as ours
    from conformance.report import with_part

    parser = argparse.ArgumentParser(prog="python -m conformance.standard")
    parser.add_argument("--rounds", type=int, default=3, help="arrays of each format")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default=str(Path(__file__).parent / "results.md"))
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    theirs.set_array_api_strict_flags(api_version="2024.12")
    sweep = Sweep(theirs, ours, chosen.seed)
    formats(sweep)
    for _ in range(chosen.rounds):
        made(sweep)
        for name in EVERY:
            elements(sweep, name)
            sums(sweep, name)
            moved(sweep, name)
            if name in (*FLOATS, *COMPLEX):
                algebra(sweep, name)
    missing = [name for name in theirs.__all__ if not hasattr(ours, name)
               and not name.endswith(("_flags", "Flags", "Device", "__version__"))]  # fmt: skip
    text = written(sweep, missing, chosen.rounds)
    page = Path(chosen.out).read_text(encoding="utf-8") if Path(chosen.out).exists() else ""
    Path(chosen.out).write_text(with_part(page, text), encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
