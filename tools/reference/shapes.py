"""Shapes of what an example takes and gives, with named axes: found by calling it with other ones.

What is said holds for two sizes of each axis that have no other relation to each other.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from tools.reference import samples
from tools.reference.trying import attempted, filled, tensors

Sizes = dict[str, int]
Shapes = tuple[tuple[int, ...], ...]
MOST: Final = 60  # readings that are tried
# Axes of the example's tensors; further readings, where the first does not fit, are apart by a bar.
AXES: Final = {
    "x": "rows columns", "y": "others columns|rows columns|columns inner|inner columns",
    "v": "columns|rows", "w": "rows|columns", "n": "rows columns", "m": "rows",
    "a": "rows rows|columns columns", "held": "rows columns", "c": "rows",
    "line": "batch channels length", "image": "batch channels height width",
    "cube": "batch channels depth height width",
}  # fmt: skip
FREE: Final = {
    "rows": (7, 11), "columns": (5, 13), "inner": (9, 23), "others": (6, 29), "batch": (3, 10),
    "channels": (17, 31), "length": (24, 40), "height": (24, 40), "width": (36, 72),
    "depth": (48, 64),
}  # fmt: skip
ONE: Final[dict[str, Callable[[int], int]]] = {
    "{}": lambda n: n, "{} - 1": lambda n: n - 1, "{} + 1": lambda n: n + 1,
    "{} + 2": lambda n: n + 2, "{} - 2": lambda n: n - 2, "2 {}": lambda n: 2 * n,
    "3 {}": lambda n: 3 * n, "4 {}": lambda n: 4 * n, "8 {}": lambda n: 8 * n,
    "{} // 2": lambda n: n // 2, "{} // 2 + 1": lambda n: n // 2 + 1, "{}²": lambda n: n * n,
    "2 {} - 2": lambda n: 2 * n - 2, "{0} ({0} - 1) / 2": lambda n: n * (n - 1) // 2,
    "8 {} + 1": lambda n: 8 * n + 1,
}  # fmt: skip
TWO: Final[dict[str, Callable[[int, int], int]]] = {
    "{} {}": lambda n, m: n * m, "{} + {}": lambda n, m: n + m,
}  # fmt: skip


def _readings(names: list[str]) -> Iterator[tuple[dict[str, str], tuple[Sizes, Sizes]]]:
    """Axes of the tensors, and two sizes of each axis: the most general reading first."""
    choices = [
        dict(zip(names, chosen, strict=True))
        for chosen in itertools.product(*(AXES[name].split("|") for name in names))
    ]
    usual = {name: samples.evaluate(samples.VALUES[name]).shape for name in names}
    known = dict.fromkeys(("rows", "columns", "others", "inner"), 2)
    for name in names:
        known |= dict(zip(AXES[name].split("|")[0].split(), usual[name], strict=True))
    for fixed in range(len(known) + 1):
        for chosen in choices:
            axes = [*dict.fromkeys(" ".join(chosen.values()).split())]
            for kept in itertools.combinations(axes, fixed):
                first, second = (
                    {axis: known[axis] if axis in kept else FREE[axis][i] for axis in axes}
                    for i in (0, 1)
                )
                yield chosen, (first, second)
        if fixed == 0:
            square = {name: "rows " * len(shape) for name, shape in usual.items()}
            yield square, ({"rows": 7}, {"rows": 11})


def _given(axes: Mapping[str, str], sizes: Sizes, front: tuple[int, ...] = ()) -> Shapes | None:
    return tuple(front + tuple(sizes[axis] for axis in own.split()) for own in axes.values())


def _made(call: str, names: list[str], given: Shapes | None) -> Shapes:
    """Shapes of the result with tensors of these shapes; none where they do not fit."""
    shapes = zip(names, given or (), strict=True)
    made = attempted(call, {name: filled(name, shape) for name, shape in shapes})
    return tuple(tuple(part.shape) for part in made)


def _laws(first: Sizes, second: Sizes) -> dict[tuple[int, int], str]:
    """Texts by what they are worth in both cases, the simplest one of each."""
    free = [axis for axis in first if first[axis] != second[axis]]
    found: dict[tuple[int, int], str] = {}
    for text, law in ONE.items():
        for axis in free:
            found.setdefault((law(first[axis]), law(second[axis])), text.format(axis))
    for (text, pair), (a, b) in itertools.product(TWO.items(), itertools.combinations(free, 2)):
        found.setdefault((pair(first[a], first[b]), pair(second[a], second[b])), text.format(a, b))
    return found


def _texts(first: Shapes, second: Shapes, sizes: tuple[Sizes, Sizes]) -> list[str]:
    """The axes of each tensor of a result as text; none where they follow no law."""
    if [len(shape) for shape in first] != [len(shape) for shape in second]:
        return []
    laws = _laws(*sizes)
    pairs = [list(zip(one, other, strict=True)) for one, other in zip(first, second, strict=True)]
    if any(n != m and (n, m) not in laws for shape in pairs for n, m in shape):
        return []
    return [", ".join(str(n) if n == m else laws[n, m] for n, m in shape) for shape in pairs]


def _alike(call: str, names: list[str]) -> str:
    """What there is to say where any shape does and stays."""
    for shape in ((), (5,), (3, 5, 7)):
        made = _made(call, names, (shape,) * len(names))
        if not made or set(made) != {shape}:
            return ""
    if len(names) == 1:
        return f"`{names[0]}[...]` of any shape, which stays"
    listed = ", ".join(f"`{name}[...]`" for name in names)
    if set(_made(call, names, ((5, 1), (7,), *((1,),) * (len(names) - 2)))) == {(5, 7)}:
        return f"{listed} are broadcast"
    return f"{listed} of one shape, which stays"


def told(call: str) -> str:
    """The shapes of a call's tensors and of what it gives; nothing where it gives no tensors."""
    names = tensors(call)
    if not names or not attempted(call, {}):
        return ""
    if alike := "" if "a" in names else _alike(call, names):
        return alike
    for axes, sizes in itertools.islice(_readings(names), MOST):
        first = _made(call, names, _given(axes, sizes[0]))
        second = _made(call, names, _given(axes, sizes[1])) if first else ()
        texts = _texts(first, second, sizes)
        if not texts or not second:
            continue
        front = _made(call, names, _given(axes, sizes[0], (2, 3)))
        more = front == tuple((2, 3, *shape) for shape in first) and "batch" not in sizes[0]
        return _sentence(axes, texts, sizes, "..., " if more else "")
    return ""


def _sentence(
    axes: Mapping[str, str], texts: list[str], sizes: tuple[Sizes, Sizes], dots: str
) -> str:
    first, second = sizes
    written = {
        name: ", ".join(a if first[a] != second[a] else str(first[a]) for a in own.split())
        for name, own in axes.items()
    }
    operands = ", ".join(f"`{name}[{dots}{text}]`" for name, text in written.items())
    made = [f"`[{(dots + text).removesuffix(', ')}]`" for text in texts]
    result = f"{len(made)} of {made[0]}" if len({*made}) == 1 < len(made) else ", ".join(made)
    return f"{operands} → {result}"
