"""`python -m conformance.programs`: random programs, by PyTorch and by torpor, plain and jitted;
small ones by its interpreter, too.

    python -m conformance.programs --seconds 600    ten minutes of them
    python -m conformance.programs --seed 17        one of them, with its text

A program is text: a few inputs and some lines, each of which makes a tensor or writes into one,
and gradients at its end. Each line was taken by PyTorch when the program was made. Sizes are 0, 1
and primes above all, values have NaN, infinities, denormal and extreme numbers among them.
Where rounding alone decides (PyTorch in float64 gives something else too) nothing is compared.
Needs torch; the exit status is 1 where something differs.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from conformance.overlaps import overlaps
from conformance.program_lines import EXACT, LINES, MASKED, SUMMED, WRITES

INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
FORMATS = (*("float32",) * 8, "float64", "float16", "bfloat16", *INTEGERS, "int64", "bool", "bool")
SIZES = (0, 1, 1, 2, 3, 3, 5, 7, 11, 13, 17, 31)
LARGEST = 4000  # numbers in a tensor
FEW = 200  # numbers in all inputs of what the interpreter runs, too
NOISES = 4  # times that a result which differs is held against PyTorch's with other last bits
EVERY = 4  # so many programs one of them is run by the interpreter
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 1e-38, 1.0)
STEEP = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0)  # without those whose slopes overflow
EXTREME = (0.0, -0.0, 1e-40, -1e-40, 1e-38, 3e38, -3e38, 1.0)  # whose sums depend on the order
TOLERANCE = {"float16": 1e-2, "bfloat16": 5e-2, "float32": 3e-4, "float64": 1e-8, "complex64": 1e-3}

# Whose slopes PyTorch's code for vectors and for numbers takes otherwise, or that are in
# docs/differences.md; of equal numbers `msort` takes any as the first, and that of the variance of
# one NaN is infinite there.
SLOPES = (
    ".var(",
    ".std(",
    "copysign",
    "remainder",
    "F.elu",
    "logcumsumexp",
    "amax",
    "amin",
    "msort",
)

CHOICES = {"FORMAT": ("float32", "float64", "float16", "bfloat16", *INTEGERS[1:])}


class Kind(NamedTuple):
    """A line with letters for tensors, and what each of these has to be."""

    text: str
    operands: tuple[str, ...]


class Variable(NamedTuple):
    """A tensor of a program: its name, and whether no rounding came before its numbers."""

    name: str
    exact: bool


class Program(NamedTuple):
    """Inputs by name, lines, the names to compare, and those whose gradients are taken."""

    inputs: dict[str, Any]
    lines: list[str]
    results: list[str]
    jittable: bool

    def text(self) -> str:
        body = "\n".join(f"    {line}" for line in self.lines)
        given = ", ".join(self.inputs)
        return f"def program({given}):\n{body}\n    return {', '.join(self.results)},\n"


def kinds(table: str) -> list[Kind]:
    """The rows of a table such as LINES."""
    found = []
    for row in table.strip().splitlines():
        letters, _, texts = row.partition(": ")
        operands = tuple(letters.replace("~", " ~").split()) if "~" in letters else tuple(letters)
        found += [Kind(text.strip(), operands) for text in texts.split(" ; ")]
    return found


PLAIN, WITH_MASKS, IN_PLACE = kinds(LINES), kinds(MASKED), kinds(WRITES)


def is_of(letter: str, variable: Variable, tensor: Any) -> bool:
    """Whether a tensor is what a letter of LINES asks for."""
    import torch

    if letter.startswith("~") and not variable.exact:
        return False
    is_float, is_bool = tensor.dtype.is_floating_point, tensor.dtype == torch.bool
    return {"f": is_float, "i": not is_float and not is_bool, "b": is_bool, "n": not is_bool}.get(
        letter[-1], True
    )


class Maker:
    """Makes one program of a seed, line by line, as PyTorch takes it."""

    def __init__(self, seed: int) -> None:
        import torch

        self.random, self.numbers = random.Random(seed), np.random.default_rng(seed)
        self.special = self.random.choice(((), (), (), SPECIAL, EXTREME))
        self.jittable = self.random.random() < 0.6
        self.gradients = self.random.random() < 0.35
        if self.gradients and self.special:
            self.special = STEEP
        self.scope: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
        self.variables: list[Variable] = []
        self.lines: list[str] = []
        self.inputs: dict[str, Any] = {}
        self.base = tuple(self.random.choice(SIZES) for _ in range(self.random.randint(1, 4)))

    def program(self) -> Program:
        """The whole of it."""
        for number in range(self.random.randint(2, 4)):
            self.add_input(f"a{number}")
        wanted, tries = self.random.randint(3, 12), 0
        while len(self.lines) < wanted and (tries := tries + 1) < 200:
            self.try_line()
        results = [one.name for one in self.variables]
        if self.gradients:
            results += self.add_gradients()
        return Program(self.inputs, self.lines, results, self.jittable)

    def add_input(self, name: str) -> None:
        import torch

        shape = list(self.base)
        if self.random.random() < 0.3:
            shape = shape[self.random.randint(0, len(shape) - 1) :]
        if self.random.random() < 0.2:
            shape[self.random.randrange(len(shape))] = 1
        if self.random.random() < 0.15:
            shape = [self.random.choice(SIZES) for _ in shape]
        while np.prod(shape) > LARGEST:
            shape[shape.index(max(shape))] = 3
        form = self.random.choice(FLOATS[2:3] if self.gradients else FORMATS)
        self.inputs[name] = torch.tensor(self.array(shape, form)).to(getattr(torch, form))
        self.scope[name] = self.inputs[name].clone()
        self.variables.append(Variable(name, exact=True))
        if self.gradients:
            name = f"p{name}"
            self.lines.append(f"{name} = {name[1:]}.detach().requires_grad_()")
            self.run(self.lines[-1])
            self.variables[-1] = Variable(name, exact=True)

    def array(self, shape: list[int], form: str) -> np.ndarray:
        if form == "bool":
            return self.numbers.random(shape) < 0.5
        if form in INTEGERS:
            ends = np.iinfo(form)
            small = self.numbers.integers(max(-9, ends.min), 9, shape)
            if not self.special:
                return small.astype(form)
            wide = self.numbers.integers(ends.min, ends.max, shape, form, endpoint=True)
            return np.where(self.numbers.random(shape) < 0.2, wide, small.astype(form)).astype(form)
        found = self.numbers.standard_normal(shape) * self.random.choice((1, 1, 3))
        if self.special:
            rare = self.numbers.choice(self.special, shape)
            found = np.where(self.numbers.random(shape) < 0.15, rare, found)
        return found.astype(np.float32 if form != "float64" else np.float64)

    def run(self, line: str) -> bool:
        """Whether PyTorch takes a line."""
        try:
            exec(line, self.scope)
        except Exception:
            return False
        return True

    def try_line(self) -> None:
        """A line more, if what was drawn is one that can be."""
        writes = self.random.random() < 0.25 and not self.gradients
        table = IN_PLACE if writes else PLAIN if self.jittable else PLAIN + WITH_MASKS
        kind = self.random.choice(table)
        if any(word in kind.text for word in self.left_out()):
            return
        chosen = []
        for letter in kind.operands:
            fit = [v for v in self.variables if is_of(letter, v, self.scope[v.name])]
            if not fit:
                return
            chosen.append(self.random.choice(fit))
        if len({self.scope[one.name].dtype for one in chosen}) > 1 and not all(
            self.scope[one.name].ndim for one in chosen
        ):
            return  # a tensor without axes promotes like others here (docs/differences.md)
        floats = [self.scope[one.name].dtype.is_floating_point for one in chosen]
        if writes and any(floats) and not floats[0]:
            return  # floats that no integer is are held at its ends here
        is_product = any(word in kind.text for word in ("einsum", "@", "cdist"))
        if is_product and len({self.scope[one.name].dtype for one in chosen}) > 1:
            return  # PyTorch takes several formats only of what is empty
        if is_product and self.special and any(1 in self.scope[one.name].shape for one in chosen):
            return  # a sum of one product -0.0 is 0.0 there
        if "conv" in kind.text and any(self.scope[one.name].numel() == 0 for one in chosen):
            return  # PyTorch leaves the filters' axis empty where there are no channels
        if "scatter" in kind.text and any(self.scope[one.name].numel() == 0 for one in chosen):
            return  # an index without elements has to fit here
        whole = all(self.scope[one.name].is_contiguous() for one in chosen)
        if not whole and any(word in kind.text for word in ("flatten", "reshape", "ravel")):
            return  # a copy for PyTorch, and another view of the same here
        text = self.filled(kind.text, [one.name for one in chosen])
        if writes:
            self.write(text, chosen)
            return
        name = f"t{len(self.lines)}"
        if not self.run(f"{name} = {text}"):
            return
        found = self.scope[name]
        if not hasattr(found, "numel") or found.numel() > LARGEST:
            return
        kept = not found.dtype.is_floating_point or kind.text.startswith(tuple(EXACT))
        self.lines.append(f"{name} = {text}")
        self.variables.append(Variable(name, kept and all(one.exact for one in chosen)))

    def left_out(self) -> tuple[str, ...]:
        """What is not in this program's lines."""
        found: tuple[str, ...] = ("unique", "nonzero()") if self.jittable else ()
        if self.special:
            found += ("to(torch.FORMAT)", "topk", "scaled_dot", "prod")  # docs/differences.md
            # Of many rows PyTorch takes inf - inf for a distance; zeros of a padding, or beyond the
            # ends, times infinity may be left out here, or may not (docs/numbers.md).
            found += ("cdist", "padding", "conv_transpose", *(SLOPES if self.gradients else ()))
        if self.special is EXTREME:
            found += (*SUMMED, "2 + y", "y * 2")
        # The slope of elu at NaN is 1 or NaN in PyTorch, as vectors are filled; logcumsumexp takes
        # logarithms of the slope that comes, and makes 0 of NaN.
        return found + (("nan_to_num", "F.elu", "logcumsumexp") if self.gradients else ())

    def write(self, text: str, chosen: list[Variable]) -> None:
        """A line that writes into a tensor; all that share memory with it are as exact as it is."""
        target = self.scope[chosen[0].name]
        if 0 in target.stride() and target.numel() > 1:
            return  # an expanded view, which cannot be written to
        if any(overlaps(target, self.scope[one.name]) for one in chosen[1:]):
            return  # PyTorch reads what it has written already, or says nothing of what it does
        before = {one.name: self.scope[one.name].clone() for one in self.variables}
        if not self.run(text):
            for name, kept in before.items():
                if kept.shape == self.scope[name].shape and 0 not in self.scope[name].stride():
                    self.scope[name].copy_(kept)
            return
        self.lines.append(text)
        for place, (name, exact) in enumerate(self.variables):
            kept = exact and not self.scope[name].dtype.is_floating_point
            self.variables[place] = Variable(name, kept)

    def filled(self, text: str, names: list[str]) -> str:
        """The text with names, axes and numbers in place of its letters."""
        axes = max(1, self.scope[names[0]].ndim)
        words = dict(zip("xyz", names, strict=False))
        out, word = [], ""
        for letter in text + " ":
            if letter.isalnum() or letter == "_" or (letter == "." and not word):
                word += letter
                continue
            if word == "d":
                word = str(self.random.randrange(-axes, axes))
            elif word == "k":
                word = str(self.random.randint(1, 4))
            elif "." not in word:
                word = words.get(word, word)
            for key, values in CHOICES.items():
                word = word.replace(key, self.random.choice(values)) if key in word else word
            out.append(word + letter)
            word = ""
        return "".join(out).strip()

    def add_gradients(self) -> list[str]:
        """Lines that take gradients of a sum of what was made; names of these."""
        leaves = [one.name for one in self.variables if one.name.startswith("pa")]
        made = [one.name for one in self.variables if self.scope[one.name].requires_grad
                and one.name not in leaves]  # fmt: skip
        if not made:
            return []
        loss = " + ".join(f"({name} * 0.5).sum()" for name in made[-3:])
        names = [f"g{name}" for name in leaves]
        line = (
            f"{', '.join(names)}, = [torch.zeros_like(p) if g is None else g for p, g in zip("
            f"[{', '.join(leaves)}], torch.autograd.grad({loss}, [{', '.join(leaves)}], "
            "allow_unused=True))]"
        )
        if not self.run(line):
            return []
        self.lines.append(line)
        return names


def of_torch(program: Program, wide: bool = False) -> list[np.ndarray]:
    """The results by PyTorch; `wide`: float32 inputs as float64."""
    import torch

    scope: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
    text = program.text()
    if wide:
        text = text.replace("torch.float32", "torch.float64").replace(".float()", ".double()")
    exec(text, scope)
    given = [
        (one.double() if wide and one.dtype.is_floating_point else one).clone()
        for one in program.inputs.values()
    ]
    found = scope["program"](*given)
    kept = [one.detach().resolve_conj() for one in found]
    return [(one.float() if one.dtype == torch.bfloat16 else one).numpy() for one in kept]


def of_torpor(program: Program, way: str) -> list[list[Any]]:
    """The results by torpor, of one call, or of three of a jitted function."""
    import torpor

    scope: dict[str, Any] = {"torch": torpor, "F": torpor.nn.functional}
    exec(compile(program.text(), "<program>", "exec"), scope)
    function: Callable[..., Any] = scope["program"]
    if way == "jitted":
        function = torpor.jit(function)
    found = []
    with torpor.device("PYTHON" if way == "interpreted" else "CPU"):
        for _ in range(3 if way == "jitted" else 1):
            given = [given_tensor(one) for one in program.inputs.values()]
            found.append([(one.dtype.name, one.detach().numpy()) for one in function(*given)])
    return found


def given_tensor(tensor: Any) -> Any:
    """PyTorch's tensor as one of torpor's own, copied."""
    import torch

    import torpor

    if tensor.dtype == torch.bfloat16:
        return torpor.tensor(tensor.float().numpy()).to(torpor.bfloat16)
    return torpor.tensor(tensor.numpy())


def coarsest(program: Program, result: str) -> str:
    """The format with the fewest digits that a float may have been rounded to on the way to a
    result: one that is named for a gradient, float32 where an input has it.
    """
    named = [one for one in ("bfloat16", "float16") if f"torch.{one})" in program.text()]
    if result.startswith("g") and named:
        return named[0]
    inputs = {str(one.dtype) for one in program.inputs.values()}
    return "float32" if "torch.float32" in inputs else "float64"


def differs(
    found: Any, expected: np.ndarray, wide: np.ndarray | None, rounded: str = "float64"
) -> str:
    """What differs in a result, or nothing, if the format `rounded` has come before it."""
    name, array = found
    if array.shape != expected.shape:
        return f"shape {array.shape}, PyTorch {expected.shape}"
    if name != "bfloat16" and array.dtype != expected.dtype:
        return f"format {array.dtype}, PyTorch {expected.dtype}"
    if expected.dtype.kind in "bui":
        return "" if np.array_equal(array, expected) else "numbers"
    mine, theirs = (np.asarray(one, np.float64) for one in (array, expected))
    with np.errstate(all="ignore"):
        size = np.nanmax(np.abs(theirs[np.isfinite(theirs)]), initial=1.0)
        limit = max(TOLERANCE[name], TOLERANCE[rounded]) * (np.abs(theirs) + min(size, 1e3))
        wrong = ~(
            (np.abs(mine - theirs) <= limit) | (mine == theirs) | np.isnan(mine) & np.isnan(theirs)
        )
        if wide is not None and wide.shape == theirs.shape:
            exact = np.asarray(wide, np.float64)
            sure = (
                (np.abs(exact - theirs) <= limit / 8)
                | (exact == theirs)
                | (np.isnan(exact) & np.isnan(theirs))
            )
            wrong &= sure
    if not wrong.any():
        return ""
    place = tuple(int(index) for index in np.argwhere(wrong)[0])
    return f"at {place} {mine[place]!r}, PyTorch {theirs[place]!r} ({int(wrong.sum())} numbers)"


def last_bits(seed: int) -> Any:
    """A context in which each float that an operation of PyTorch makes is a last bit off."""
    import torch
    from torch.utils import _python_dispatch as dispatch
    from torch.utils import _pytree as trees

    numbers = torch.Generator().manual_seed(seed)

    def moved(one: Any) -> Any:
        if not isinstance(one, torch.Tensor) or not one.dtype.is_floating_point:
            return one
        signs = torch.randint(0, 2, one.shape, generator=numbers) * 2 - 1
        return one * (1 + torch.finfo(one.dtype).eps * signs).to(one.dtype)

    class LastBits(dispatch.TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            found = func(*args, **(kwargs or {}))
            shared = any(one.alias_info for one in func._schema.returns)
            return found if shared else trees.tree_map(moved, found)

    return LastBits()


def is_steady(program: Program, name: str, found: Any, expected: np.ndarray) -> bool:
    """Whether a result differs also from what PyTorch gives where every operation's floats, forward
    and backward, are a last bit larger or smaller by chance: else rounding alone may be the cause
    (the logarithm of a logarithm near 1, slopes of a softmax that is all but one-hot).
    """
    place, rounded = program.results.index(name), coarsest(program, name)
    for seed in range(NOISES):
        with last_bits(seed):
            near = of_torch(program)[place]
        if not differs(found, expected, near, rounded):
            return False
    return True


def compared(seed: int) -> tuple[Program, str]:
    """A program, and how torpor differs: nothing, if it does not."""
    import torch

    torch.manual_seed(0)
    program = Maker(seed).program()
    expected = of_torch(program)
    try:
        wide = of_torch(program, wide=True)
    except Exception:
        wide = [None] * len(expected)
    ways = ["plain"] + ["jitted"] * program.jittable
    if sum(one.numel() for one in program.inputs.values()) <= FEW and seed % EVERY == 0:
        ways.append("interpreted")
    for way in ways:
        try:
            calls = of_torpor(program, way)
        except Exception as error:
            last = "".join(traceback.format_exception(error)[-3:])
            return program, f"{way}: {type(error).__name__}: {last}"
        for found in calls:
            for name, one, other, exact in zip(program.results, found, expected, wide, strict=True):
                reason = differs(one, other, exact, coarsest(program, name))
                if reason and is_steady(program, name, one, other):
                    return program, f"{way}: {name}: {reason}"
    return program, ""


def shown(seed: int, program: Program, reason: str) -> str:
    """A report of a program."""
    given = "\n".join(
        f"{name} = {tensor.dtype} {tuple(tensor.shape)}" for name, tensor in program.inputs.items()
    )
    return f"--- seed {seed}: {reason}\n{given}\n{program.text()}"


def search(module: str, compare: Callable[[int], tuple[Program, str]]) -> int:
    """Compare programs until the time is over, or one: whether any differs."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}")
    parser.add_argument("--seconds", type=float, default=60, help="how long")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="one seed alone, with its text")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    if chosen.seed is not None:
        program, reason = compare(chosen.seed)
        print(shown(chosen.seed, program, reason or "no difference"))
        return bool(reason)
    end, seed, wrong = time.monotonic() + chosen.seconds, chosen.first, 0
    while time.monotonic() < end:
        program, reason = compare(seed)
        if reason:
            wrong += 1
            print(shown(seed, program, reason), flush=True)
        seed += 1
    print(f"{seed - chosen.first} programs, {wrong} differ")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(search("conformance.programs", compared))
