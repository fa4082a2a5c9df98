"""`python -m conformance.suites`: tests that tinygrad publishes, run with torpor in its place.

Its source distribution is fetched from the package index, and of it nothing but the folder of tests
is unpacked. Modules under its names, made here, hand the tests torpor's `Tensor`, with what that
library calls otherwise than PyTorch does (`CALLED`) said in torpor's words. `APART` names the tests
that are not counted, and why: what they ask for is that library's inside, or a meaning in which
torpor follows PyTorch.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import subprocess
import sys
import tarfile
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

import torpor
import torpor.ir
import torpor.nn.state
from torpor import Tensor, dtypes
from torpor.nn import functional

NAME: Final = "tinygrad"
VERSION: Final = "0.12.0"  # the last whose distribution has its tests
FILES: Final = tuple(
    """
    test_ops test_setitem test_optim test_symbolic_ops test_symbolic_jit test_tensor_variable
    test_tiny
    """.split()  # noqa: SIM905 (a table that is read)
)
# Why tests are not counted: parts of their names.
APART: Final = {
    "its inside": """
        test_lamb_cpu_offload test_multitensor _uop test_mnist
        test_conv2d_ceildiv_edge_case test_inner_tvar_node test_preserve_sin
        TestTiny.+test_jit test_assert_tensor_train test_attention_pos_0 test_uop
        TestFloat16Log2 test_const_folding test_jit_setitem_variable_offset""",
    "its class of error": """
        test_pad_circular_mode test_prod_dtype_arg test_sum_dtype_arg
        test_scatter_no_reduce_tensor_src test_slice_fancy_indexing_errors test_mean_dtype_arg
        test_setitem_into_noncontiguous test_set_with_requires_grad test_pad$ shape_mismatch
        test_symbolic_chunk_error_on_symbolic_dim test_sort_empty test_variable_empty""",
    "a meaning in which torpor follows PyTorch": """
        test_sigmoid_alt_extreme test_set_into_requires_grad test_cat$ test_duped_weights
        test_attention_training TestOpsUint8.+test_cast TestOpsUint8.+interpolate_bilinear""",
}


def fetch(folder: Path) -> Path:
    """The folder of tests, unpacked beneath a folder."""
    tests = folder / f"{NAME}-{VERSION}" / "test"
    if not tests.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary=:all:"]
        subprocess.run([*pip, "--dest", str(folder), f"{NAME}=={VERSION}"], check=True)
        with tarfile.open(folder / f"{NAME}-{VERSION}.tar.gz") as whole:
            inside = f"{NAME}-{VERSION}/test/"
            members = [one for one in whole.getmembers() if one.name.startswith(inside)]
            whole.extractall(folder, members, filter="data")
    return tests


# --- its names ------------------------------------------------------------------------------------
WHOLE: Final = dtypes.int32
OWN: Final[dict[str, Any]] = {name: getattr(Tensor, name) for name in dir(Tensor)}  # PyTorch's


def amount(name: str) -> Callable[..., Any]:
    """A reduction that gives values alone."""
    return lambda x, axis=None, keepdim=False: OWN[name](
        x, tuple(range(x.ndim)) if axis is None else axis, keepdim
    )


def narrow(name: str, stable: bool = False) -> Callable[..., Any]:
    """A function whose indices have 32 bits."""

    def function(*given: Any, **options: Any) -> Any:
        if stable:
            options["stable"] = True
        found = OWN[name](*given, **options)
        return with_narrow(found) if isinstance(found, tuple) else found.cast(WHOLE)

    return function


def with_narrow(found: Any) -> Any:
    """Values, and indices of 32 bits, if there are indices."""
    return (found[0], found[1].cast(WHOLE)) if isinstance(found, tuple) else found


def padded(x: Any, padding: Any, axes: int, value: float = 0.0) -> tuple[Any, Any]:
    """Padding of each side, or a negative one, done before; and what is left of it."""
    if isinstance(padding, int) and padding < 0:
        padding = (padding,) * 2 * axes
    if isinstance(padding, tuple | list) and len(padding) == 2 * axes:
        return functional.pad(x, tuple(padding), value=value), 0
    return x, padding


def convolution(name: str) -> Callable[..., Any]:
    """A convolution along as many axes as the weight has."""

    def function(x: Any, weight: Any, bias: Any = None, groups: int = 1, stride: Any = 1,
                 dilation: Any = 1, padding: Any = 0, **options: Any) -> Any:  # fmt: skip
        axes = weight.ndim - 2
        if name == "conv":
            x, padding = padded(x, padding, axes)
        options |= {"stride": stride, "padding": padding, "groups": groups, "dilation": dilation}
        return getattr(functional, f"{name}{axes}d")(x, weight, bias, **options)

    return function


def pool(name: str, value: float) -> Callable[..., Any]:
    """A pool along as many axes as its kernel has."""

    def function(x: Any, kernel_size: Any = (2, 2), stride: Any = None, dilation: Any = 1,
                 padding: Any = 0, **options: Any) -> Any:  # fmt: skip
        sizes = (kernel_size,) * 2 if isinstance(kernel_size, int) else kernel_size
        x, padding = padded(x, padding, len(sizes), value)
        if name == "max_pool":
            options["dilation"] = dilation
        made = getattr(functional, f"{name}{len(sizes)}d")
        return with_narrow(made(x, sizes, stride, padding=padding, **options))

    return function


def interpolate(x: Any, size: Any, mode: str = "linear", align_corners: bool = False) -> Any:
    if mode != "linear":
        return functional.interpolate(x, size=size, mode=mode)
    mode = ("linear", "bilinear", "trilinear")[len(size) - 1]
    return functional.interpolate(x, size=size, mode=mode, align_corners=align_corners)


def pad(x: Any, padding: Any, mode: str = "constant", value: float = 0.0) -> Any:
    if any(one is None or isinstance(one, tuple | list) for one in padding):
        padding = [number for pair in reversed(padding) for number in pair or (0, 0)]
    return functional.pad(x, padding, mode, value)


def counted(name: str) -> Any:
    """A maker whose integers have 32 bits."""

    def function(*given: Any, dtype: Any = None, **options: Any) -> Any:
        whole = dtype is None and all(isinstance(one, int | tuple | list) for one in given)
        return OWN[name](*given, dtype=WHOLE if whole else dtype, **options)

    return staticmethod(function)


def where(x: Any, yes: Any, no: Any) -> Any:
    made = OWN["where"](x, yes, no)
    return made.cast(WHOLE) if type(yes) is type(no) is int else made


def sparse_categorical(x: Any, target: Any, **options: Any) -> Any:
    options = {"ignore_index": -1, **options}
    rows, places = x.reshape(-1, x.shape[-1]), target.reshape(-1).cast("int64")
    found = functional.cross_entropy(rows, places, **options)
    return found.reshape(target.shape) if options.get("reduction") == "none" else found


def entropy(name: str) -> Callable[..., Any]:
    return lambda x, y, **options: getattr(functional, name)(x, y.cast(x.dtype), **options)


def isinf(x: Any, detect_positive: bool = True, detect_negative: bool = True) -> Any:
    up, down = x == float("inf"), x == -float("inf")
    return (up & detect_positive) | (down & detect_negative)


def reshape(x: Any, *shape: Any) -> Any:
    return OWN["reshape"](
        x, [x.shape[n] if s is None else s for n, s in enumerate(sizes_of(shape))]
    )


def randint(*shape: Any, low: int = 0, high: int = 10, dtype: Any = WHOLE, **options: Any) -> Any:
    return OWN["randint"](low, high, tuple(sizes_of(shape)), dtype=dtype, **options)


def sizes_of(shape: Any) -> Any:
    return shape[0] if shape and isinstance(shape[0], tuple | list) else shape


CALLED: Final[dict[str, Any]] = {
    "max": amount("amax"), "min": amount("amin"), "argmax": narrow("argmax"),
    "argmin": narrow("argmin"), "topk": narrow("topk"), "sort": narrow("sort", stable=True),
    "argsort": narrow("argsort", stable=True), "one_hot": narrow("one_hot"),
    "cummax": lambda x, axis=0: OWN["cummax"](x, axis)[0],
    "cummin": lambda x, axis=0: OWN["cummin"](x, axis)[0],
    "logcumsumexp": lambda x, axis=0: OWN["logcumsumexp"](x, axis),
    "conv2d": convolution("conv"), "conv_transpose2d": convolution("conv_transpose"),
    "max_pool2d": pool("max_pool", -float("inf")), "avg_pool2d": pool("avg_pool", 0.0),
    "interpolate": interpolate, "pad": pad, "where": where, "isinf": isinf, "reshape": reshape,
    "idiv": lambda x, y: x.div(y, rounding_mode="trunc"), "lshift": lambda x, y: x << y,
    "rshift": lambda x, y: x >> y, "gelu": lambda x: OWN["gelu"](x, approximate="tanh"),
    "mod": lambda x, y, reverse=False: y % x if reverse else x % y,
    "sparse_categorical_crossentropy": sparse_categorical,
    "binary_crossentropy": entropy("binary_cross_entropy"),
    "binary_crossentropy_logits": entropy("binary_cross_entropy_with_logits"),
    "arange": counted("arange"), "full": counted("full"), "randint": staticmethod(randint),
    "einsum": staticmethod(torpor.einsum),
}  # fmt: skip


class Pass(contextlib.ContextDecorator):
    """Settings of that library, which mean nothing here."""

    def __init__(self, *_: Any, **__: Any):
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


class Anything(types.ModuleType):
    """A module of that library: names that are not set are classes of which there is no object."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"reset": staticmethod(lambda: None), "kernel_count": 0})


def install() -> None:
    """Put modules with its names into `sys.modules`, and its calls into torpor's tensors."""
    for name, function in CALLED.items():
        setattr(Tensor, name, function)
    formats = [one for one in vars(dtypes).values() if hasattr(one, "kind")]
    for name, found in {
        "sints": tuple(one for one in formats if one.kind == "int"),
        "uints": tuple(one for one in formats if one.kind == "uint"),
        "min": staticmethod(lambda d: int(np.iinfo(d.numpy).min)),
        "max": staticmethod(lambda d: int(np.iinfo(d.numpy).max)),
        "default_float": dtypes.float32, "default_int": WHOLE,
    }.items():  # fmt: skip
        setattr(dtypes, name, found)
    vars(torpor.Device["CPU"])["renderer"] = None
    common = {
        "Tensor": Tensor, "dtypes": dtypes, "Device": torpor.Device, "Context": Pass,
        "Variable": torpor.Variable, "TinyJit": torpor.jit, "nn": torpor.nn,
        "UOp": torpor.ir.UOp, "Ops": torpor.ir.Ops, "is_dtype_supported": lambda *_: True,
        "_to_np_dtype": lambda d: d.numpy,
        "getenv": lambda name, default=0: type(default)(os.environ.get(name, default)),
        "CI": True, "IMAGE": 0, "DEBUG": 0, "EMULATE": "", "OSX": False,
        "prod": lambda sizes: int(np.prod(sizes)),
    }  # fmt: skip
    for part in ("", "helpers", "tensor", "device", "dtype", "uop", "uop.ops", "engine",
                 "engine.jit", "engine.realize", "renderer", "renderer.ptx", "renderer.nir",
                 "runtime", "runtime.ops_python", "nn", "nn.state", "nn.optim"):  # fmt: skip
        module = Anything(".".join(filter(None, (NAME, part))))
        module.__path__ = []  # type: ignore[attr-defined]
        vars(module).update(common)
        if part.startswith("nn"):
            source = getattr(torpor.nn, part[3:]) if part[3:] else torpor.nn
            names = [name for name in dir(source) if not name.startswith("__")]
            vars(module).update({name: getattr(source, name) for name in names})
        sys.modules[module.__name__] = module
    for name in ("test.helpers", "test.test_schedule", "extra", "extra.gradcheck", "examples",
                 "examples.gpt2"):  # fmt: skip
        sys.modules[name] = Anything(name)
    helpers = sys.modules["test.helpers"]
    for name in ("needs_second_gpu", "slow", "assert_jit_cache_len"):
        setattr(helpers, name, lambda function, *_: function)


# --- the run --------------------------------------------------------------------------------------
class Count:
    """A plugin of pytest's that leaves out what is apart, and counts the rest."""

    def __init__(self) -> None:
        self.apart: dict[str, int] = {}
        self.passed, self.failed = 0, list[str]()
        self.whole = {why: re.compile("|".join(names.split())) for why, names in APART.items()}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        kept = []
        for item in items:
            why = next((w for w, names in self.whole.items() if names.search(item.nodeid)), None)
            if why is None:
                kept.append(item)
            else:
                self.apart[why] = self.apart.get(why, 0) + 1
        items[:] = kept

    def pytest_runtest_logreport(self, report: Any) -> None:
        if type(report).__name__ == "TestReport":  # not one of a part of a test
            self.passed += report.when == "call" and report.passed
        if report.failed and report.nodeid not in self.failed:
            self.failed.append(report.nodeid)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests; 1 if less than 97 % of those that count pass."""
    parser = argparse.ArgumentParser(prog="python -m conformance.suites", description=__doc__)
    parser.add_argument("files", nargs="*", default=FILES, help="of the suite: test_ops, ...")
    parser.add_argument("--into", type=Path, help="where it is unpacked",
                        default=Path.home() / ".cache" / "torpor" / "suites")  # fmt: skip
    given = parser.parse_args(arguments)
    import pytest

    try:
        tests = fetch(given.into)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"skipped: the tests of {NAME} {VERSION} cannot be had: {error}")
        return 0
    install()
    sys.path.insert(0, str(tests.parent))
    sys.modules["test"] = types.ModuleType("test")
    sys.modules["test"].__path__ = [str(tests)]  # type: ignore[attr-defined]
    count = Count()
    paths = [str(tests / f"{name}.py") for name in given.files]
    options = ["-q", "-n0", "--tb=short", "-p", "no:cacheprovider", "--rootdir", str(tests.parent)]
    pytest.main([*options, *paths], plugins=[count])
    total = count.passed + len(count.failed)
    print(f"{NAME} {VERSION}: {count.passed} of {total} pass ({count.passed / max(total, 1):.1%})")
    for why, number in count.apart.items():
        print(f"  {number} not counted: {why}")
    for name in count.failed:
        print(f"  failed: {name.rsplit('/')[-1]}")
    return int(count.passed < 0.97 * total)


if __name__ == "__main__":
    sys.exit(main())
