import threading

import numpy as np
import pytest

from torpor import Context, Generator, Tensor, dtypes, manual_seed
from torpor.base.errors import DTypeError
from torpor.graph import build
from torpor.ir.uop import UOp
from torpor.tensor.handle import make
from torpor.tensor.random import threefry

# Known answers for threefry2x32, 20 rounds, from the paper's library (Random123, kat_vectors):
# counters, keys, results.
KNOWN = [
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
]


@pytest.mark.parametrize(("counters", "keys", "words"), KNOWN, ids=["zeros", "ones", "pi"])
def test_known_answers(counters, keys, words):
    def nodes(values):
        return tuple(build.constant(v, dtypes.uint32, (1,)) for v in values)

    found = threefry(nodes(keys), nodes(counters))
    assert all(isinstance(word, UOp) for word in found)
    assert tuple(make(word, "CPU").item() for word in found) == words


def reference(seed, draw, count):
    """First words of draw `draw`, by the paper's text over Python integers."""
    mask, words = 0xFFFFFFFF, []
    for i in range(count):
        k = [seed & mask, seed >> 32, 0x1BD11BDA ^ (seed & mask) ^ (seed >> 32)]
        x, y = (i + k[0]) & mask, (draw + k[1]) & mask
        for group in range(5):
            for turn in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
                x = (x + y) & mask
                y = (((y << turn) | (y >> (32 - turn))) & mask) ^ x
            x = (x + k[(group + 1) % 3]) & mask
            y = (y + k[(group + 2) % 3] + group + 1) & mask
        words.append(x)
    return np.array(words, np.uint64)


def test_draws_are_functions_of_seed_and_number():
    manual_seed(2**40 + 5)
    for draw in range(3):
        found = Tensor.rand(7).numpy()
        expected = (reference(2**40 + 5, draw, 7) >> np.uint64(8)).astype(np.float64) * 2.0**-24
        np.testing.assert_array_equal(found, expected.astype(np.float32))


def test_devices_draw_the_same_numbers():
    found = []
    for device in ("CPU", "PYTHON"):
        manual_seed(3)
        with Context(STRICT_FLOAT=1):
            made = [Tensor.randn(40, device=device), Tensor.zeros(40, device=device).log_normal_()]
            exact = [one.numpy() for one in made]
        found.append([*exact, Tensor.rand(40, device=device).numpy()])
    np.testing.assert_array_equal(*found)


def test_order_of_building_counts_not_of_computing():
    manual_seed(1)
    first, second = Tensor.rand(5), Tensor.randn(5)
    late, early = second.numpy(), first.numpy()
    manual_seed(1)
    np.testing.assert_array_equal(Tensor.rand(5).numpy(), early)
    np.testing.assert_array_equal(Tensor.randn(5).numpy(), late)
    assert (Tensor.rand(5).numpy() != early).any()


def test_generators_are_streams_of_their_own():
    one, other = Generator(3), Generator(3)
    np.testing.assert_array_equal(
        Tensor.rand(4, generator=one).numpy(), Tensor.rand(4, generator=other).numpy()
    )
    state = one.get_state()
    ahead = Tensor.rand(4, generator=one).numpy()
    one.set_state(state)
    np.testing.assert_array_equal(Tensor.rand(4, generator=one).numpy(), ahead)
    assert one.initial_seed() == 3
    assert Generator("cpu").device == Generator(device="cpu").device == "CPU"
    assert one.seed() == one.initial_seed() != 3


def test_seeds_are_context_local():
    manual_seed(5)
    expected = Tensor.rand(3).numpy()
    manual_seed(5)
    thread = threading.Thread(target=lambda: (manual_seed(9), Tensor.rand(3)))
    thread.start()
    thread.join()
    np.testing.assert_array_equal(Tensor.rand(3).numpy(), expected)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_uniforms_and_normals_have_their_moments(dtype):
    manual_seed(0)
    count = 20000
    uniform = Tensor.rand(count, dtype=dtype).numpy().astype(np.float64)
    assert 0 <= uniform.min() < 0.01 < 0.98 < uniform.max() < 1
    # five standard errors of the mean and of the variance, and what rounding down takes away
    down = {"float16": 2.0**-12, "bfloat16": 2.0**-9}.get(dtype, 0)
    assert abs(uniform.mean() + down - 0.5) < 5 * (1 / 12 / count) ** 0.5
    assert abs(uniform.var() - 1 / 12) < 5 * (1 / 180 / count) ** 0.5
    normal = Tensor.randn(count, dtype=dtype).numpy().astype(np.float64)
    assert abs(normal.mean()) < 5 / count**0.5
    assert abs(normal.var() - 1) < 5 * (2 / count) ** 0.5 + 0.01 * (dtype == "bfloat16")
    assert abs((normal**3).mean()) < 5 * (15 / count) ** 0.5


def test_integers():
    manual_seed(0)
    drawn = Tensor.randint(-3, 4, (7000,)).numpy()
    counts = np.bincount(drawn + 3, minlength=7)
    assert drawn.dtype == np.int64
    assert len(counts) == 7
    assert ((counts - 1000) ** 2 / 1000).sum() < 27.9  # chi-squared, 6 degrees, p = 1e-4
    assert Tensor.randint(10, size=(2, 3)).shape == (2, 3)
    assert Tensor.randint(2, 3, low=5, high=6).tolist() == [[5, 5, 5], [5, 5, 5]]
    wide = Tensor.randint(0, 2**62, (100,)).numpy()
    assert wide.min() >= 0
    assert wide.max() > 2**61
    assert set(Tensor.randint(0, 256, (4000,), dtype="uint8").tolist()) == set(range(256))
    ends = Tensor.randint(-(2**63), 2**63, (100,)).numpy()
    assert ends.min() < -(2**62)
    assert ends.max() > 2**62
    with pytest.raises(ValueError, match="low < high"):
        Tensor.randint(3, 3, (1,))
    for low, high, dtype in ((0, 2**63 + 1, "int64"), (-129, 0, "int8"), (0, 257, "uint8")):
        with pytest.raises(DTypeError, match="does not fit"):
            Tensor.randint(low, high, (1,), dtype=dtype)


def test_permutations_and_initialisers():
    manual_seed(0)
    assert sorted(Tensor.randperm(50).tolist()) == list(range(50))
    for made, bound in (
        (Tensor.kaiming_uniform(64, 32, a=5**0.5), 32**-0.5),
        (Tensor.glorot_uniform(64, 32), (6 / 96) ** 0.5),
        (Tensor.scaled_uniform(64, 32), 2048**-0.5),
        (Tensor.uniform(2048, low=-2.0, high=2.0), 2),
    ):
        values = made.numpy()
        assert 0.95 * bound < abs(values).max() <= bound * (1 + 1e-6)
    assert abs(Tensor.normal(4096, mean=3.0, std=0.5).numpy().mean() - 3) < 0.04
    assert Tensor.empty(3).normal_().shape == (3,)
    assert Tensor.zeros(3, dtype="float64").rand_like().dtype is dtypes.float64


def test_equal_draws_are_one_kernel():
    keys = {item.ast.key for _ in range(3) for item in Tensor.rand(16).schedule()}
    assert len(keys) == 1


def test_filling_in_place():
    x = Tensor.zeros(1000).contiguous()
    view = x[:10]
    assert x.uniform_(2.0, 3.0) is x
    assert 2 <= view.numpy().min() <= x.numpy().max() < 3
    values = x.normal_(5.0, 0.5).numpy()
    assert abs(values.mean() - 5) < 0.1
    assert abs(values.std() - 0.5) < 0.1


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: Tensor.normal(2, std=-1), "standard deviation"),
        (lambda: Tensor.normal(2, std=float("nan")), "standard deviation"),
        (lambda: Tensor.zeros(2).normal_(0, -1), "standard deviation"),
        (lambda: Tensor.uniform(2, low=1, high=0), "low <= high"),
        (lambda: Tensor.zeros(2).uniform_(1, 0), "low <= high"),
        (lambda: Tensor.zeros(2).uniform_(0, float("inf")), "low <= high"),
        (lambda: Tensor.zeros(2).uniform_(float("nan"), 1), "low <= high"),
        (lambda: Tensor.randint(0, 3.5, (2,)), "whole number, got 3.5"),
        (lambda: Tensor.randint_like(Tensor.zeros(2), 0.5), "whole number, got 0.5"),
        (lambda: Tensor.randperm(2.5), "is an integer"),
        (lambda: Tensor.randperm(-1), "cannot be negative"),
        (lambda: Tensor([2.0]).bernoulli().numpy(), "between 0 and 1"),
        (lambda: Tensor([-0.5]).bernoulli().numpy(), "between 0 and 1"),
        (lambda: Tensor([float("nan")]).bernoulli().numpy(), "between 0 and 1"),
    ],
)
def test_impossible_distributions(call, text):
    with pytest.raises(ValueError, match=text):
        call()


def test_ends_of_distributions():
    assert Tensor.normal(2, mean=3.0, std=0).tolist() == [3.0, 3.0]
    assert Tensor.normal(3.0, 0.0, (2,)).tolist() == [3.0, 3.0]
    assert Tensor.zeros(2).uniform_(1, 1).tolist() == [1.0, 1.0]
    assert Tensor([0.0, 1.0]).bernoulli().tolist() == [0.0, 1.0]
    assert Tensor.randint(Tensor(0), Tensor(1), (2,)).tolist() == [0, 0]
    assert Tensor.randperm(3, dtype="int32").dtype is dtypes.int32


def test_more_than_a_draw_of_numbers_is_several_draws():
    manual_seed(1)
    many = Tensor.rand(2**33)
    beyond, after = many[2**32 + 5].item(), Tensor.rand(8)[5].item()
    manual_seed(1)
    draws = [Tensor.rand(8)[5].item() for _ in range(3)]
    assert [many[5].item(), beyond, after] == draws


def test_too_many_numbers_are_too_much_memory():
    with pytest.raises(MemoryError, match="4,000,000,000,000 bytes"):
        Tensor.rand(10**6, 10**6).realize()


@pytest.mark.parametrize(
    "name", ["scaled_uniform", "glorot_uniform", "kaiming_uniform", "kaiming_normal"]
)
def test_no_weight_has_a_negative_size(name):
    with pytest.raises(ValueError, match="negative"):
        getattr(Tensor, name)(-3, 2)


@pytest.mark.parametrize("dtype", [dtypes.complex64, dtypes.complex128])
def test_complex_numbers_are_drawn_by_their_parts(dtype):
    manual_seed(3)
    normal, uniform = Tensor.randn(4096, dtype=dtype), Tensor.rand(4096, dtype=dtype)
    assert normal.dtype is uniform.dtype is normal.randn_like().dtype is dtype
    found, drawn = normal.numpy(), uniform.numpy()
    assert abs(found.var() - 1) < 0.06
    assert abs(found.real.var() - 0.5) < 0.04
    assert abs(np.corrcoef(found.real, found.imag)[0, 1]) < 0.05
    assert min(drawn.real.min(), drawn.imag.min()) >= 0
    assert max(drawn.real.max(), drawn.imag.max()) < 1
    assert uniform.rand_like().shape == (4096,)
