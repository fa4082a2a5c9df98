"""Random numbers from counters: draw n, element i is a function of (seed, n, i) alone.

Threefry-2x32 with 20 rounds (Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as
1, 2, 3", SC 2011). Draws are numbered in the order in which they are built, not computed. Seed
and number enter as bound variables, so that equal draws are equal kernels. Whole words and uniforms
have the same bits on every device; what logarithms and cosines are taken of has them under
STRICT_FLOAT, and else a last bit may differ, since targets fuse products and sums where they can.
"""

from __future__ import annotations

import itertools
import math
import secrets
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, Final, NamedTuple

import numpy as np

from torpor.base import settings
from torpor.base.dtypes import DType, as_dtype, dtypes
from torpor.base.errors import DTypeError, ShapeError, ValueRangeError
from torpor.base.locks import recursive_lock
from torpor.device import Device, named
from torpor.graph import build
from torpor.ir.infer import Size, largest, product, shape_of
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.ir.variable import Variable, bind
from torpor.tensor.annotated import Tensor
from torpor.tensor.handle import Handle, check_fits, make
from torpor.tensor.host import known_shape
from torpor.tensor.iota import iota
from torpor.tensor.mode import default_float
from torpor.tensor.radix import placed, sorted_numbers
from torpor.tensor.repeated import repeated
from torpor.tensor.spelling import a_shape, counts_of, whole_number, within
from torpor.tensor.watch import active, watcher

_WORD: Final = (1 << 32) - 1
_ROTATIONS: Final = ((13, 15, 26, 6), (17, 29, 16, 24))  # the paper's table 2, for 2 x 32 bits
_PARITY: Final = 0x1BD11BDA  # the paper's section 3.2: keys of all zeros must not stay so
_names: Final = itertools.count()
_taking: Final = recursive_lock()  # a finaliser may draw while it is held


class _State(NamedTuple):
    """A seed, the number of the next draw, and a name that tells seedings apart."""

    seed: int
    draw: int
    name: int


class Generator:
    """A stream of random numbers of its own, from `seed`. They are the same on every device, so
    that `device` (also by itself, as in PyTorch) is only kept.

    >>> torpor.Generator(device="cpu").manual_seed(3).initial_seed()
    3
    """

    def __init__(self, seed: int | str | None = None, device: Any = None):
        if isinstance(seed, str):
            seed, device = None, seed
        self.device = named(Device.canonicalize(device))
        self._state = _seeded(settings.number("SEED") if seed is None else seed)

    def manual_seed(self, seed: int) -> Generator:
        """Start again from `seed`; itself."""
        self._state = _seeded(seed)
        return self

    def seed(self) -> int:
        """Start again from a seed that nobody knows; gives it."""
        self.manual_seed(secrets.randbits(63))
        return self.initial_seed()

    def initial_seed(self) -> int:
        """The seed it was started from."""
        return self._state.seed

    def get_state(self) -> Tensor:
        """Its seed and the number of the next draw, as 16 bytes: uint8."""
        return _as_bytes(self._state)

    def set_state(self, new_state: Tensor) -> None:
        """Go on from what `get_state` gave."""
        self._state = _from_bytes(new_state)


def _seeded(seed: int) -> _State:
    if not hasattr(seed, "__int__"):
        raise DTypeError(f"a seed is a whole number, not {seed!r}")
    return _State(int(seed) & ((1 << 64) - 1), 0, next(_names))


_default: Final[ContextVar[_State | None]] = ContextVar("torpor_random", default=None)


def manual_seed(seed: int) -> None:
    """Start this context's random numbers again from `seed`."""
    _default.set(_seeded(seed))


def _as_bytes(state: _State) -> Tensor:
    words = np.array([state.seed, state.draw], np.dtype("<u8"))
    return Handle._type(words.view(np.uint8), device="CPU")


def _from_bytes(given: Any) -> _State:
    found = np.asarray(given.numpy() if isinstance(given, Handle) else given)
    if found.dtype != np.uint8 or found.shape != (16,):
        raise DTypeError(f"a state of random numbers is uint8 (16,), not {given!r}")
    seed, draw = found.view(np.dtype("<u8")).tolist()
    return _seeded(seed)._replace(draw=draw)


def get_rng_state() -> Tensor:
    """Seed and number of the next draw of this context's random numbers, as 16 bytes: uint8."""
    return _as_bytes(state_of(None))


def set_rng_state(new_state: Tensor) -> None:
    """Go on from what `get_rng_state` gave."""
    _default.set(_from_bytes(new_state))


def fresh_name() -> int:
    """A number above the names of all seedings so far and below those to come."""
    return next(_names)


def state_of(generator: Generator | None) -> _State:
    """The state of a generator (None: the context's own)."""
    if generator is not None:
        return generator._state
    state = _default.get()
    if state is None:
        _default.set(state := _seeded(settings.number("SEED")))
    return state


def go_on_from(generator: Generator | None, state: _State) -> None:
    """Make `state` the state of a generator (None: the context's own)."""
    if generator is not None:
        generator._state = state
    else:
        _default.set(state)


def take_draws(generator: Generator | None, count: int) -> _State:
    """Take the next draws of a stream, which no other thread gets then: its state before."""
    with _taking:
        state = state_of(generator)
        go_on_from(generator, state._replace(draw=state.draw + count))
    return state


def _next_state(generator: Generator | None, count: int) -> _State:
    watching = watcher() if active else None
    state = take_draws(generator, count if watching is None else watching.draws(count))
    if watching is not None:
        watching.drew(generator, state)
    return state


# --- words ----------------------------------------------------------------------------------------
def _bound(name: str, value: int) -> UOp:
    return build.cast(bind(Variable(name, 0, _WORD), value), dtypes.uint32)


def _constant(value: int, like: UOp) -> UOp:
    return build.constant(value & _WORD, dtypes.uint32, shape_of(like))


def _rotate(word: UOp, count: int) -> UOp:
    high = build.elementwise(Ops.SHL, word, _constant(count, word))
    low = build.elementwise(Ops.SHR, word, _constant(32 - count, word))
    return build.elementwise(Ops.OR, high, low)


def threefry(keys: tuple[UOp, UOp], counters: tuple[UOp, UOp]) -> tuple[UOp, UOp]:
    """Two random words (uint32 nodes of one shape) for each pair of counters, under two keys."""
    add, xor = Ops.ADD, Ops.XOR
    parity = build.elementwise(xor, keys[0], keys[1])
    schedule = (*keys, build.elementwise(xor, parity, _constant(_PARITY, parity)))
    left = build.elementwise(add, counters[0], schedule[0])
    right = build.elementwise(add, counters[1], schedule[1])
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            left = build.elementwise(add, left, right)
            right = build.elementwise(xor, _rotate(right, rotation), left)
        left = build.elementwise(add, left, schedule[(group + 1) % 3])
        right = build.elementwise(add, right, schedule[(group + 2) % 3])
        right = build.elementwise(add, right, _constant(group + 1, right))
    return left, right


@repeated
def _words(draw: Tensor, low: Tensor, high: Tensor, shape: Any) -> tuple[Tensor, Tensor]:
    """Two random words for each element of `shape`, by a draw's number and a seed's words (0-d)."""
    count, device = product(shape), draw._storage.device
    given = (one._current() for one in (draw, low, high))
    number, *keys = (build.broadcast_to(node, (count,)) for node in given)
    rounds = _draws_for(count)
    place = iota(count, device, dtypes.uint32 if rounds == 1 else dtypes.int64)
    if rounds > 1:  # each 2**32 elements are a draw of their own
        whole = build.elementwise(Ops.SHR, place, build.constant(32, dtypes.int64, (count,)))
        number = build.elementwise(Ops.ADD, number, build.cast(whole, dtypes.uint32))
        place = build.cast(place, dtypes.uint32)
    left, right = threefry((keys[0], keys[1]), (place, number))
    return make(build.reshape(left, shape), device), make(build.reshape(right, shape), device)


def _draws_for(count: Size) -> int:
    """How many draws it takes to have so many words."""
    return max(-(-largest(count) // (_WORD + 1)), 1)


def random_words(shape: Any, device: str | None, generator: Generator | None) -> tuple[Any, Any]:
    """Two random words (uint32) for each element."""
    where, shape = Device.canonicalize(device), tuple(shape)
    if any(isinstance(size, int) and size < 0 for size in shape):
        raise ShapeError(f"a shape cannot have a negative size: {shape}")
    draws = _draws_for(product(shape))
    state = _next_state(generator, draws)
    name, words = state.name, (state.seed & _WORD, state.seed >> 32)
    keys = [_bound(f"random_seed{name}_{i}", word) for i, word in enumerate(words)]
    draw = _bound(f"random_draw{name}_{state.draw}", state.draw & _WORD)
    if active and (watching := watcher()) is not None:
        further = watching.numbered(draws)
        draw = draw if further is None else build.elementwise(Ops.ADD, draw, further)
    number, low, high = (make(node, where) for node in (draw, *keys))
    return _words(number, low, high, shape)


def _unit(words: tuple[Any, Any], dtype: DType) -> Tensor:
    """Uniform in [0, 1): as many high bits as the format has, so that no rounding happens."""
    if dtype is dtypes.float64:  # 53 bits, as in the reference code of the Mersenne Twister
        high, low = words[0] >> 5, words[1] >> 6
        return (high.cast(dtype) * 2.0**26 + low.cast(dtype)) * 2.0**-53
    bits = dtype.fraction + 1
    return (words[0] >> (32 - bits)).cast(dtype) * 2.0**-bits


def random_uniform(
    shape: Sequence[Size], device: str | None, dtype: DType | None = None,
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Uniform numbers in [0, 1)."""
    return _unit(random_words(shape, device, generator), _float_format(dtype))


def open_uniform(
    shape: Sequence[Size], device: str | None, dtype: DType, generator: Generator | None
) -> Any:
    """Uniform numbers in (0, 1), float32 or float64: the middles of 2**32 parts (float64: 2**53),
    rounded, so that those close to 0 have all their places.
    """
    words = random_words(shape, device, generator)
    if dtype is dtypes.float64:
        return (_unit(words, dtype) + 2.0**-54).minimum(1 - 2.0**-53)
    return ((words[0].cast(dtype) + 0.5) * 2.0**-32).minimum(1 - 2.0**-24)


def _float_format(dtype: Any) -> DType:
    kind = default_float() if dtype is None else as_dtype(dtype)
    if not kind.is_float:
        raise DTypeError(f"random numbers of this kind are floats, not {kind}")
    return kind


def _of_parts(shape: Any, dtype: Any) -> tuple[Any, Any]:
    """The shape and the format of what numbers are made of: two for each complex one."""
    if dtype is None or not as_dtype(dtype).is_complex:
        return shape, dtype
    return (*shape, 2), as_dtype(dtype).part


def _of_format(made: Any, dtype: Any) -> Tensor:
    """Numbers as they were drawn, those of complex ones put together."""
    return made.view_as_complex() if made.dtype is not as_dtype(dtype or made.dtype) else made


def normal_numbers(
    shape: Any, device: str | None, dtype: Any, generator: Generator | None
) -> Tensor:
    """Box and Muller (1958): sqrt(-2 log u) cos(2 pi v) of two uniforms, u in (0, 1]."""
    kind = _float_format(dtype)
    wide = kind if kind is dtypes.float64 else dtypes.float32
    if wide is dtypes.float64:
        first, second = (_unit(random_words(shape, device, generator), wide) for _ in range(2))
    else:
        words = random_words(shape, device, generator)
        first, second = _unit(words, wide), _unit((words[1], words[0]), wide)
    return _normal(first, second).cast(kind)


@repeated
def _normal(first: Tensor, second: Tensor) -> Tensor:
    """Normal numbers of two uniforms in [0, 1)."""
    radius = ((1 - first).log() * -2).sqrt()
    return radius * (second * (2 * math.pi)).cos()


def _check_uniform(low: Any, high: Any) -> None:
    if not 0 <= high - low < math.inf:
        raise ValueRangeError(f"uniform numbers need finite low <= high, not {low} and {high}")


def _finished(made: Tensor, requires_grad: bool | None) -> Tensor:
    return made.requires_grad_() if requires_grad else made


class Random(Handle):
    """Random tensors. All take `dtype` (the default float unless given), `device`, `requires_grad`
    and `generator` (the context's own unless given). Equal seeds and equal order of draws give
    equal numbers, on every device (normal ones and their kin up to a last bit, which targets that
    fuse multiply-adds round differently; to the bit under STRICT_FLOAT).

    >>> Tensor.manual_seed(1)
    >>> first = Tensor.rand(3).tolist()
    >>> Tensor.manual_seed(1)
    >>> Tensor.rand(3).tolist() == first
    True
    """

    __slots__ = ()

    manual_seed = staticmethod(manual_seed)

    @staticmethod
    def rand(
        *size: Any, dtype: Any = None, device: str | None = None, requires_grad: bool | None = None,
        generator: Generator | None = None,
    ) -> Tensor:  # fmt: skip
        """Uniform in [0, 1): multiples of 2**-24 (float64: 2**-53, float16: 2**-11, bfloat16:
        2**-8). Of complex numbers both parts are.
        """
        shape, part = _of_parts(a_shape(size), dtype)
        made = random_uniform(shape, device, _float_format(part), generator)
        return _finished(_of_format(made, dtype), requires_grad)

    @staticmethod
    def randn(
        *size: Any, dtype: Any = None, device: str | None = None, requires_grad: bool | None = None,
        generator: Generator | None = None,
    ) -> Tensor:  # fmt: skip
        """Normal, of mean 0 and variance 1; the parts of complex numbers each of variance 1/2.
        Box and Muller, 1958.
        """
        shape, part = _of_parts(a_shape(size), dtype)
        made: Any = normal_numbers(shape, device, part, generator)
        if part is not dtype:
            made = made * math.sqrt(0.5)
        return _finished(_of_format(made, dtype), requires_grad)

    @staticmethod
    def randint(
        *arguments: Any, low: int = 0, high: int | None = None, size: Any = None,
        dtype: Any = dtypes.int64, device: str | None = None, generator: Generator | None = None,
    ) -> Tensor:  # fmt: skip
        """Integers from low (0 unless given) below high, int64 unless `dtype` is given:
        `randint(high, size)` or `randint(low, high, size)`; or sizes as arguments with low= and
        high=. A bias of at most (high - low) / 2**32. Lemire, 2019, arXiv:1805.10941, section 4.
        `DTypeError` where the format cannot hold them all.

        >>> Tensor.randint(1, 7, (2, 3)).shape
        (2, 3)
        """
        if high is None:
            *bounds, size = arguments if size is None else (*arguments, size)
            if not 1 <= len(bounds) <= 2:
                raise TypeError("randint takes (high, size) or (low, high, size)")
            low, high = (low, bounds[0]) if len(bounds) == 1 else bounds
        low, high = (v if isinstance(v, int) else whole_number(v) for v in (low, high))
        shape = a_shape(arguments if size is None else (size,))
        if high <= low:
            raise ShapeError(f"randint needs low < high, not {low} and {high}")
        kind = as_dtype(dtype)
        for end in (low, high - 1):
            check_fits(end, kind if kind.is_int else dtypes.int64)
        return _below(random_words(shape, device, generator), high - low, low).cast(kind)

    @staticmethod
    def uniform(
        *size: Any, low: float = 0.0, high: float = 1.0, dtype: Any = None, **options: Any
    ) -> Tensor:
        """Uniform in [low, high), both finite (`ValueRangeError`)."""
        _check_uniform(low, high)
        requires = options.pop("requires_grad", None)
        return _finished(Random.rand(*size, dtype=dtype, **options) * (high - low) + low, requires)

    @staticmethod
    def scaled_uniform(*size: Any, **options: Any) -> Tensor:
        """Uniform in [-1, 1) divided by the square root of the element count."""
        count = math.prod(known_shape(counts_of(size, "a size")))
        return Random._within(a_shape(size), max(count, 1) ** -0.5, options)

    @staticmethod
    def glorot_uniform(*size: Any, **options: Any) -> Tensor:
        """Uniform in ±sqrt(6 / (fan in + fan out)), of a weight (out, in, …): fan out is its first
        size, fan in the product of the others. Glorot and Bengio, 2010, equation 16.
        """
        shape = known_shape(counts_of(size, "a size"))
        return Random._within(shape, (6 / (shape[0] + math.prod(shape[1:]))) ** 0.5, options)

    @staticmethod
    def kaiming_uniform(*size: Any, a: float = 0.01, **options: Any) -> Tensor:
        """Uniform in ±sqrt(6 / ((1 + a²) fan in)), of a weight (out, in, …). He et al., 2015,
        arXiv:1502.01852, equation 15.
        """
        shape = known_shape(counts_of(size, "a size"))
        bound = math.sqrt(6 / (1 + a**2) / max(math.prod(shape[1:]), 1))
        return Random._within(shape, bound, options)

    @staticmethod
    def kaiming_normal(*size: Any, a: float = 0.01, **options: Any) -> Tensor:
        """Normal of deviation sqrt(2 / ((1 + a²) fan in)), of a weight (out, in, …). He et al.,
        2015, arXiv:1502.01852, equation 15.
        """
        shape = known_shape(counts_of(size, "a size"))
        std = math.sqrt(2 / (1 + a**2) / max(math.prod(shape[1:]), 1))
        requires = options.pop("requires_grad", None)
        return _finished(Random.randn(*shape, **options) * std, requires)

    @staticmethod
    def _within(shape: Any, bound: float, options: dict[str, Any]) -> Tensor:
        return Random.uniform(*shape, low=-bound, high=bound, **options)

    @staticmethod
    def randperm(
        n: int, device: str | None = None, generator: Generator | None = None,
        dtype: Any = dtypes.int64,
    ) -> Tensor:  # fmt: skip
        """The integers below n in random order, (n,), int64 unless `dtype` is given: the rank of
        each of n random words.

        >>> sorted(Tensor.randperm(4).tolist())
        [0, 1, 2, 3]
        """
        (n,) = known_shape(counts_of((n,), "the count of randperm"))
        left, _ = random_words((n,), device, generator)
        order = sorted_numbers(left.reshape(1, n).contiguous())
        rank = placed(make(iota(n, left.device), left.device).reshape(1, n), order)
        return rank.reshape(n).cast(dtype)

    def rand_like(self, **options: Any) -> Tensor:
        """Uniform in [0, 1), in this tensor's shape, and its format and device unless given."""
        return Random.rand(self.shape, **{"dtype": self.dtype, "device": self.device, **options})

    def randn_like(self, **options: Any) -> Tensor:
        """Normal, in this tensor's shape, and its format and device unless given."""
        return Random.randn(self.shape, **{"dtype": self.dtype, "device": self.device, **options})

    def randint_like(self, low: int, high: int | None = None, **options: Any) -> Tensor:
        """Integers from low below high, in this tensor's shape, and its format and device unless
        given.
        """
        low, high = (0, low) if high is None else (low, high)
        options = {"dtype": self.dtype, "device": self.device, **options}
        return Random.randint(low, high, self.shape, **options)

    # --- in place ---------------------------------------------------------------------------------
    def uniform_(
        self, low: float = 0.0, high: float = 1.0, generator: Generator | None = None
    ) -> Tensor:
        """Filled with numbers uniform in [low, high); itself."""
        _check_uniform(low, high)
        drawn = random_uniform(self.shape, self.device, self.dtype, generator)
        return self.copy_(drawn * (high - low) + low)

    def normal_(
        self, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None
    ) -> Tensor:
        """Filled with normal numbers of the given mean and standard deviation; itself."""
        within("a standard deviation", std, 0)
        drawn = normal_numbers(self.shape, self.device, self.dtype, generator)
        return self.copy_(drawn * std + mean)


def _below(words: tuple[Any, Any], count: int, low: int) -> Any:
    """Integers (int64) from `low`, `count` of them: the high half of word times count (Lemire 2019,
    section 4, without rejection: a bias of at most count / 2**32).
    """
    if count <= 1 << 32:
        return ((words[0].cast(dtypes.uint64) * count) >> 32).cast(dtypes.int64) + low
    wide = (words[0].cast(dtypes.uint64) << 32) | words[1].cast(dtypes.uint64)
    return (wide % min(count, (1 << 64) - 1)).bitcast(dtypes.int64) + low
