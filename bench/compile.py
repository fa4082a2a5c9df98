"""How long kernels take to compile, whatever they compute: random ones, for several targets.

python -m bench.compile                      # 3,000 kernels
python -m bench.compile --count 100 --seed 7 # others, fewer
python -m bench.compile --seconds 2          # tells of each that took longer than that
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

TARGETS: Final = ("native", "avx2", "cuda:sm_90")
DTYPES: Final = ("float32", "float32", "float64", "float16", "bfloat16", "int8", "int32", "int64")
WAYS: Final = {1: "1d", 2: "2d", 3: "3d"}
LARGEST: Final = 1 << 22  # elements that are moved about
SLOW: Final = 0.5  # seconds, of which the 99th percentile shall be no more


class Timed(NamedTuple):
    """A kernel: the program it is of, its target and name, the processor's seconds that it took,
    and how it failed, if it did.
    """

    program: str
    kernel: str
    seconds: float
    failure: str = ""


class Drawn:
    """Choices by chance, of which `said` keeps a record."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.said: list[str] = []

    def one(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def size(self, most: int = 64) -> int:
        """A size: small, odd, a power of two or anything."""
        some = self.random.randint(1, most)
        return int(
            self.one(some, some, min(most, 7), 1 << self.random.randrange(most.bit_length()))
        )

    def tensor(self, *shape: int, dtype: str = "float32", gradient: bool = False) -> Any:
        import torpor

        self.said.append(f"{dtype}{list(shape)}")
        made = torpor.Tensor.empty(*shape, dtype=getattr(torpor.dtypes, dtype))
        return made.requires_grad_() if gradient else made


# --- programs -------------------------------------------------------------------------------------
def with_gradients(draw: Drawn, value: Any, *operands: Any) -> list[Any]:
    """The value, or, as often, the gradients of operands."""
    if draw.one(True, False):
        return [value]
    draw.said.append("gradients")
    (value * value).sum().backward()
    return [operand.grad for operand in operands]


def pool(draw: Drawn) -> list[Any]:
    """A pool over windows of any size."""
    from torpor.nn import functional

    axes = draw.one(1, 2, 2, 3)
    kernel = tuple(draw.one(1, 2, 3, 4, 5, 7) for _ in range(axes))
    kind = draw.one("max", "avg")
    options: dict[str, Any] = {
        "stride": tuple(draw.one(1, 2, 3, k) for k in kernel),
        "padding": tuple(draw.random.randint(0, k // 2) for k in kernel),
        "ceil_mode": draw.one(True, False),
    }
    if kind == "max":
        options["dilation"] = draw.one(1, 1, 2)
    else:
        options["count_include_pad"] = draw.one(True, False)
    draw.said.append(f"{kind}_pool{axes}d kernel={kernel} {options}")
    sizes = [2 * k + draw.size(48) for k in kernel]
    x = draw.tensor(draw.one(1, 2, 8), draw.size(), *sizes, gradient=True)
    return with_gradients(draw, getattr(functional, f"{kind}_pool{axes}d")(x, kernel, **options), x)


def convolution(draw: Drawn) -> list[Any]:
    """A convolution with everything that it may be told."""
    from torpor.nn import functional

    axes, groups = draw.one(1, 2, 2, 3), draw.one(1, 1, 1, 2, 4)
    kernel = tuple(draw.one(1, 2, 3, 3, 4, 5, 7) for _ in range(axes))
    options: dict[str, Any] = {
        "stride": tuple(draw.one(1, 1, 2, 3) for _ in kernel),
        "padding": tuple(draw.random.randint(0, k) for k in kernel),
        "dilation": draw.one(1, 1, 1, 2, 3),
        "groups": groups,
    }
    inputs, outputs = groups * draw.size(32), groups * draw.size(64)
    weight = (outputs, inputs // groups)
    name = "conv"
    if draw.one(True, False, False):
        name, weight = "conv_transpose", (inputs, outputs // groups)
        least = max(max(options["stride"]), options["dilation"])
        options["output_padding"] = draw.random.randrange(min(least, min(options["stride"])))
        options["padding"] = tuple(draw.random.randint(0, k // 2) for k in kernel)
    draw.said.append(f"{name}{axes}d kernel={kernel} {options}")
    sizes = [k * options["dilation"] + draw.size(32) for k in kernel]
    x = draw.tensor(draw.one(1, 2, 8), inputs, *sizes, gradient=True)
    w = draw.tensor(*weight, *kernel, gradient=True)
    made = getattr(functional, f"{name}{axes}d")(x, w, **options)
    return with_gradients(draw, made, x, w)


def product(draw: Drawn) -> list[Any]:
    """A product of matrices, stacked or not, transposed or not, of any format."""
    dtype = draw.one(*DTYPES)
    rows, columns, depth = (draw.one(draw.size(), draw.size(512)) for _ in range(3))
    stack = draw.one((), (), (draw.size(8),))
    a = draw.tensor(*stack, *draw.one((rows, depth), (rows, depth)), dtype=dtype)
    flipped = draw.one(True, False)
    b = draw.tensor(*stack, *((columns, depth) if flipped else (depth, columns)), dtype=dtype)
    made = a @ (b.transpose(-1, -2) if flipped else b)
    return [draw.one(made, made.relu(), made + 1, made.sum(-1))]


UNARY: Final = (
    "exp", "log", "sin", "tanh", "sqrt", "abs", "neg", "square", "sigmoid", "erf", "floor", "relu",
    "reciprocal", "cos", "log1p", "gelu",
)  # fmt: skip
BINARY: Final[tuple[Callable[[Any, Any], Any], ...]] = (
    lambda a, b: a + b,
    lambda a, b: a * b,
    lambda a, b: a - b,
    lambda a, b: a / b,
    lambda a, b: (a < b).where(a, b),
    lambda a, b: a.maximum(b),
    lambda a, b: a**b,
)


def moved(draw: Drawn, x: Any) -> Any:
    """The tensor after some movement."""
    axis = draw.random.randrange(x.ndim)
    size = x.shape[axis]
    return draw.one(
        lambda: x.flip(axis),
        lambda: x.roll(draw.random.randint(0, size), axis),
        lambda: x.transpose(axis, -1),
        lambda: x.narrow(axis, size // 3, max(1, size // 2)),
        lambda: x.cumsum(axis),
        lambda: x.reshape(-1).pad((draw.size(8), draw.size(8))),
        lambda: x.repeat_interleave(2, axis),
        lambda: x.unsqueeze(0).expand(3, *x.shape),
        lambda: type(x).cat(x, x.flip(axis), dim=axis) if hasattr(type(x), "cat") else x,
    )()


def chain(draw: Drawn) -> list[Any]:
    """A chain of elementwise operations and movements, perhaps with a gradient."""
    shape = tuple(draw.size(32) for _ in range(draw.random.randint(1, 4)))
    dtype = draw.one("float32", "float32", "float64", "float16", "bfloat16")
    x = x0 = draw.tensor(*shape, dtype=dtype, gradient=True)
    for _ in range(draw.one(2, 5, 10, 30)):
        kind = draw.one("unary", "binary", "binary", "with", "moved")
        if kind == "unary":
            x = getattr(x, draw.one(*UNARY))()
        elif kind == "binary":
            other = draw.tensor(*(draw.one(1, n) for n in x.shape), dtype=dtype)
            x = draw.one(*BINARY)(x, other)
        elif kind == "with":
            x = draw.one(*BINARY)(x, draw.one(x, 2.0, 0.5))
        elif x.numel() < LARGEST:
            x = moved(draw, x)
    return with_gradients(draw, x, x0)


def reduction(draw: Drawn) -> list[Any]:
    """Reductions of one another, and what is made of them."""
    axes, most = range(draw.random.randint(1, 4)), (16, 64, 300, 3000)
    shape = tuple(draw.size(draw.one(*most)) for _ in axes)
    dtype = draw.one("float32", "float32", *DTYPES)
    x = x0 = draw.tensor(*shape, dtype=dtype, gradient=dtype.startswith(("f", "b")))
    axis = draw.random.randrange(x.ndim)
    names = (
        "sum",
        "amax",
        "mean",
        "prod",
        "argmax",
        "var",
        "softmax",
        "logsumexp",
        "cumsum",
        "norm",
    )
    for _ in range(draw.one(1, 1, 2, 3)):
        axis = draw.random.randrange(x.ndim)
        name = draw.one(*(names if x.is_floating_point() else ("sum", "amax", "prod", "argmax")))
        draw.said.append(f"{name}({axis})")
        if name in ("softmax", "cumsum"):
            x = getattr(x, name)(axis)
        else:
            x = getattr(x, name)(dim=axis, keepdim=True)
            x = x + x0 if draw.one(True, False) and x.dtype == x0.dtype else x
    if x0.requires_grad and x.requires_grad:
        return with_gradients(draw, x, x0)
    return [x]


def scatter(draw: Drawn) -> list[Any]:
    """Reading and writing at positions that are data."""
    rows, width, count = draw.size(300), draw.size(), draw.size(100)
    dtype = draw.one("float32", "float32", "float64", "int32", "float16")
    x = draw.tensor(rows, width, dtype=dtype)
    flat = draw.tensor(count, dtype="int64")
    full = draw.tensor(count, width, dtype="int64")
    source = draw.tensor(count, width, dtype=dtype)
    name = draw.one(
        "gather", "index_select", "scatter", "scatter_add", "index_add", "scatter_reduce", "take",
        "embedding", "rows", "put",
    )  # fmt: skip
    draw.said.append(name)
    if name == "embedding":
        from torpor.nn import functional

        w = draw.tensor(rows, width, gradient=True)
        return with_gradients(draw, functional.embedding(flat, w), w)
    made: dict[str, Callable[[], Any]] = {
        "gather": lambda: x.gather(0, full),
        "index_select": lambda: x.index_select(0, flat),
        "scatter": lambda: x.scatter(0, full, source),
        "scatter_add": lambda: x.scatter_add(0, full, source),
        "index_add": lambda: x.index_add(0, flat, source),
        "scatter_reduce": lambda: x.scatter_reduce(
            0, full, source, draw.one("amax", "prod", "sum")
        ),
        "take": lambda: x.take(full),
        "rows": lambda: x[flat].sum(0),
        "put": lambda: x.index_put((flat,), source, accumulate=True),
    }
    return [made[name]()]


def attention(draw: Drawn) -> list[Any]:
    """Attention over heads, causal or not."""
    heads, width = draw.size(8), draw.one(8, 16, 32, 64, 80, draw.size())
    lengths = draw.size(200), draw.size(200)
    q = draw.tensor(1, heads, lengths[0], width, gradient=True)
    k, v = (draw.tensor(1, heads, lengths[1], width, gradient=True) for _ in range(2))
    causal = draw.one(True, False)
    draw.said.append(f"attention causal={causal}")
    return with_gradients(draw, q.scaled_dot_product_attention(k, v, is_causal=causal), q, k, v)


def normalised(draw: Drawn) -> list[Any]:
    """Norms with what stands before and behind them."""
    from torpor.nn import functional

    x = draw.tensor(draw.size(8), draw.one(4, 8, 32), draw.size(), draw.size(), gradient=True)
    name = draw.one("layer_norm", "batch_norm", "group_norm", "rms_norm", "cross_entropy")
    draw.said.append(name)
    if name == "batch_norm":
        made = functional.batch_norm(x, None, None, training=True)
    elif name == "group_norm":
        made = functional.group_norm(x, draw.one(1, 2, 4))
    elif name == "cross_entropy":
        labels = draw.tensor(x.shape[0], *x.shape[2:], dtype="int64")
        made = functional.cross_entropy(x, labels)
    else:
        made = getattr(functional, name)(x, x.shape[-1:])
    return with_gradients(draw, draw.one(made, made.relu(), made * 2 + 1), x)


PROGRAMS: Final = (
    pool, pool, convolution, convolution, product, chain, chain, reduction, reduction, scatter,
    attention, normalised,
)  # fmt: skip


# --- compiling ------------------------------------------------------------------------------------
def kernels(seed: int) -> Iterator[tuple[str, Any]]:
    """What a random program computes, as kernels, with a word on the program."""
    draw = Drawn(seed)
    program = draw.one(*PROGRAMS)
    roots = program(draw)
    told = f"{seed} {program.__name__} {' '.join(draw.said)}"
    seen = set()
    for item in roots[0].schedule(*roots[1:]):
        if item.ast not in seen and item.jump is None:
            seen.add(item.ast)
            yield told, item.ast


def compiled(ast: Any, target: str) -> str:
    """The name of a kernel, once it is compiled."""
    import torpor
    from torpor.base.target import get_target
    from torpor.device import Device
    from torpor.pipeline.compile import build, program_for

    if target.startswith("cuda"):
        return program_for(ast, get_target(target)).name
    with torpor.Context(TARGET=target):
        device = Device["CPU"]
        return build(ast, None, device.target, device.compiler)[0].name


def timed(told: str, ast: Any, target: str) -> Timed:
    """What compiling a kernel takes."""
    began = time.process_time()
    try:
        name, failure = compiled(ast, target), ""
    except Exception as error:  # all that a compiler must not do
        name, failure = "?", f"{type(error).__name__}: {str(error)[:300]}"
    return Timed(told, f"{target} {name}", time.process_time() - began, failure)


def times(count: int, seed: int = 0) -> Iterator[Timed]:
    """So many random kernels, for one target after the other."""
    found = 0
    while found < count:
        for told, ast in kernels(seed):
            target = TARGETS[found % len(TARGETS)]
            yield timed(told, ast, target)
            found += 1
            if found == count:
                return
        seed += 1


def percentile(seconds: list[float], share: float) -> float:
    """The least of the times that so large a share of them does not exceed."""
    ranked = sorted(seconds)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))]


def main() -> None:
    """Time kernels and say which are slow."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=SLOW)
    chosen = parser.parse_args()
    seconds, failures = [], 0
    for made in times(chosen.count, chosen.seed):
        seconds.append(made.seconds)
        failures += bool(made.failure)
        if made.failure or made.seconds > chosen.seconds:
            what = f"{made.kernel} {made.failure} of {made.program}"
            print(f"{made.seconds:.2f} s  {what}", flush=True)
    shares = ", ".join(f"{p}% {percentile(seconds, p / 100):.3f} s" for p in (50, 90, 99))
    print(
        f"{len(seconds)} kernels: {shares}, most {max(seconds):.3f} s, "
        f"sum {sum(seconds):.1f} s, {failures} failures"
    )


if __name__ == "__main__":
    main()
