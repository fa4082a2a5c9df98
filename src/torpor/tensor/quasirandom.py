"""PyTorch's `torch.quasirandom`: points that fill a cube more evenly than random ones."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from torpor.base.errors import ValueRangeError
from torpor.base.missing import names_of
from torpor.tensor.creation import chosen
from torpor.tensor.mode import default_float
from torpor.tensor.random import Generator
from torpor.tensor.spelling import within, written
from torpor.tensor.tensor import Tensor

_BITS: Final = 30
# Joe and Kuo, 2008, "Constructing Sobol sequences with better two-dimensional projections", the
# criterion D(6): for each dimension behind the first the odd numbers m_1, m_2, … that its
# recurrence begins with, m_i < 2**i, without their last bits, which are 1, in one number.
_BEGINNINGS: Final = """
    0 1 1 0 a 35 214 94 26e 4 148 3d5 60e3 2ab8 6371 8f8 31b9 7a54 199eef 111db7 fc4f2 d3025
    1ac531 7fb51 f526c 11184d 2436 ea597 a3b22 d82f5 4758f 116889 342d4 1ef81e c79a6 86c53
    f4c1bf9 60ff7fd f931569 91d769 2d416be 4f03f0f cc09641 9c72a64 b96402f 47391cb 1bdcdef
    e183d42 b0e56c8 469221f d5eff51 84d5552 efacba395 2209b006b ab045ce10 f96679f11 5b68fa168
    b5e78392c bf06a5a7c 6e894a7df 29dfb9ec8 5018d9ff4 80569df32 92f9f6aa8 a14ee0d6e 410341a14
    edfb00ef6 5940d505 f3fe31bf2 3f5b67c83 767fea40a 90f293edc f5b7d6a2c acd031810 1007cf03a
    57cf454e9 18fefb5c1 98aba7b4d 4af8e040c 4f0c3f092 708da14e8 8765e7753 393ace165 d147f5ac6
    256da0ad2 e279094fe e01a7990f 7589ce79 bd9124000 f10c755f9 d7835364e aec25c48b 943a9b51b
    4ef032162 6abc8733f 6c5326d06 7c705b673 effc0d6cd 6c74b0954 497a84b9b e56fe2908b9
    f343fefcc96 12b6cf958d19 7bb5e01dd32 170044221a77 1529f281f655 18a672a3ffcc 54f82e0cda6
    1c4cf1382299 3f526f1bc47 1a765774f82c 1117604f933 ead05efb9de c06a3919321 aa133995ff5
    113b6adf73ca 161e19d0f187 1e2d659a1a98 464e76b6624 17240096d99f 11d4b8d0f2c7 4ebb6b75e2a
    1c95432aa953 138e34396dcc 129ac2e72c25 126a19a7609f 166823dfd09b
""".split()  # noqa: SIM905 (a table that is read)


def _polynomials() -> Iterator[tuple[int, int]]:
    """(degree, polynomial) of the primitive polynomials over the field of two elements, in order: a
    bit for each power. x has the order 2**degree - 1 for them.
    """
    degree = 1
    while True:
        for polynomial in range((1 << degree) + 1, 2 << degree, 2):
            power, order = 1, 0
            while order == 0 or power > 1:
                power <<= 1
                power ^= polynomial if power >> degree else 0
                order += 1
            if order == (1 << degree) - 1:
                yield degree, polynomial
        degree += 1


@functools.cache
def _directions() -> Any:
    """[dimension, bit]: what is added, bit by bit, where that bit of a point's number changes."""
    found = [[1] * _BITS]
    for packed, (degree, polynomial) in zip(_BEGINNINGS, _polynomials(), strict=False):
        rest, numbers = int(packed, 16), []
        for place in range(degree):
            numbers.append((rest & ((1 << place) - 1)) << 1 | 1)
            rest >>= place
        for place in range(degree, _BITS):
            made = numbers[place - degree]
            for back in range(1, degree + 1):
                if polynomial >> (degree - back) & 1:
                    made ^= numbers[place - back] << back
            numbers.append(made)
        found.append(numbers)
    return np.array(found) << np.arange(_BITS - 1, -1, -1)


class SobolEngine:
    """Points of Sobol's sequence in the unit cube of `dimension` axes, `MAXDIM` at most: the first
    2**m of them have as many in each 2**m-th of every axis. Sobol, 1967. With `scramble` their bits
    are mixed at random, from `seed` if it is given, which keeps that: Owen, 1998. As PyTorch's;
    scrambled ones are others, as random numbers are.

    >>> SobolEngine(2).draw(3).tolist()
    [[0.0, 0.0], [0.5, 0.5], [0.75, 0.25]]
    """

    MAXBIT, MAXDIM = _BITS, len(_BEGINNINGS) + 1

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None):
        if not 1 <= dimension <= self.MAXDIM:
            what = f"a SobolEngine has from 1 to {self.MAXDIM} dimensions, not {dimension}"
            raise ValueRangeError(f"{what}; scipy.stats.qmc.Sobol has more")
        self.dimension, self.scramble, self.seed, self.num_generated = dimension, scramble, seed, 0
        numbers = _directions()[:dimension]
        shift = np.zeros(dimension, dtype=int)
        if scramble:
            numbers, shift = _mixed(numbers, seed)
        self._numbers, self._shift = Tensor(numbers), Tensor(shift)

    def draw(self, n: int = 1, out: Any = None, dtype: Any = None) -> Tensor:
        """The next points: (n, dimension)."""
        within("how many points are drawn", n, 0, 2**_BITS - self.num_generated)
        last, device = self.num_generated + n, self._numbers.device
        place = Tensor.arange(self.num_generated, last, device=device).unsqueeze(1)
        changed: Any = place ^ (place >> 1)  # two that follow each other differ in one bit
        made: Any = self._shift.expand(n, self.dimension)
        for bit in range(_BITS):
            made = made ^ ((changed >> bit) & 1) * self._numbers[:, bit]
        self.num_generated += n
        kind = chosen(dtype, default_float())
        points: Tensor = (made.double() / 2**_BITS).cast(kind)
        return points if out is None else written(out, points)

    def draw_base2(self, m: int, out: Any = None, dtype: Any = None) -> Tensor:
        """The next 2**m points, which with those before are a power of two."""
        total = self.num_generated + 2**m
        if total & (total - 1):
            what = f"{total} points are not as many in each part of an axis; use draw"
            raise ValueRangeError(f"{self.num_generated} and 2**{m} points: {what}")
        return self.draw(2**m, out, dtype)

    def fast_forward(self, n: int) -> SobolEngine:
        """Leave out the next n points; itself."""
        within("how many points are left out", n, 0, 2**_BITS - self.num_generated)
        self.num_generated += n
        return self

    def reset(self) -> SobolEngine:
        """Begin again; itself."""
        self.num_generated = 0
        return self

    def __repr__(self) -> str:
        named = {"scramble": self.scramble or None, "seed": self.seed}
        more = [f"{name}={value}" for name, value in named.items() if value is not None]
        return f"SobolEngine({', '.join([f'dimension={self.dimension}', *more])})"


def _mixed(numbers: Any, seed: int | None) -> tuple[Any, Any]:
    """The directions, each bit with a random sum of higher ones added; and a random start."""
    generator = None if seed is None else Generator().manual_seed(seed)
    count = len(numbers)
    drawn = Tensor.randint(0, 2, (count, _BITS, _BITS + 1), generator=generator).numpy()
    weights = 1 << np.arange(_BITS - 1, -1, -1)
    mixing = np.tril(drawn[:, :, :_BITS], -1) | np.eye(_BITS, dtype=int)
    bits = numbers[:, None, :] >> np.arange(_BITS - 1, -1, -1)[:, None] & 1  # [axis, bit, number]
    return np.einsum("abn,b->an", mixing @ bits % 2, weights), drawn[:, :, _BITS] @ weights


__all__ = ["SobolEngine"]
__getattr__ = names_of("torpor.quasirandom", lambda: __all__)
