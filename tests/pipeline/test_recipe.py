"""Graphs that recur run by recipe, and what comes out is as if there were none."""

import gc
import weakref
from random import Random

import numpy as np
import pytest

from tests.graph.evaluate import evaluate
from tests.schedule.graphs import compute, random_graph
from torpor import Context, Tensor, Variable, dtypes, nn
from torpor.pipeline import measuring, plans, recipe, route


@pytest.fixture
def planned(monkeypatch):
    """How many graphs have been planned since the test began; it begins without recipes, and those
    on disk are not looked for.
    """
    recipe.forget()
    monkeypatch.setattr(plans, "name_of", lambda *_: None)
    counted, plan = [], route.planned

    def counting(roots):
        counted.append(len(roots))
        return plan(roots)

    monkeypatch.setattr(route, "planned", counting)
    return counted


def numbers(seed, *shape):
    return np.random.default_rng(seed).integers(-9, 9, shape).astype(np.float32)


def test_equal_work_is_planned_once(planned):
    for seed in range(4):
        a, b = numbers(seed, 5, 6), numbers(seed + 9, 5, 6)
        np.testing.assert_array_equal(((Tensor(a) + Tensor(b)) * 2).sum(1).numpy(),
                                      ((a + b) * 2).sum(1))  # fmt: skip
    assert len(planned) == 1


def test_which_memory_is_which_matters(planned):
    a, b = numbers(1, 7), numbers(2, 7)
    x, y = Tensor(a), Tensor(b)
    for made, expected in (
        (x - y, a - b), (y - x, b - a), (x - x * 1, a - a), (x + x, a + a),
        (x + y, a + b), (y + y, b + b), ((x + y) - x, a + b - a), ((x + y) - y, a + b - b),
    ):  # fmt: skip
        np.testing.assert_array_equal(made.numpy(), expected)


@pytest.mark.parametrize("values", [(0.0, -0.0), (1.0, 2.0), (float("nan"), 1.0)])
def test_constants_are_told_apart_by_their_bits(values):
    x = Tensor(numbers(3, 6)).abs() + 1
    x.realize()
    for _ in range(2):
        for value in values:
            made = (x * value).numpy()
            expected = x.numpy() * np.float32(value)
            np.testing.assert_array_equal(
                made.view(np.uint32) >> 31, expected.view(np.uint32) >> 31
            )
            np.testing.assert_array_equal(made, expected)


def test_formats_and_shapes_are_told_apart(planned):
    for dtype in (np.float32, np.int32, np.int64, np.float64):
        for shape in ((2, 6), (6, 2), (12,)):
            a = numbers(4, *shape).astype(dtype)
            np.testing.assert_array_equal((Tensor(a) + Tensor(a)).numpy(), a + a)
    assert len(planned) >= 4  # formats, and sizes until they are numbers of a kernel


def test_settings_are_part_of_the_key(planned):
    x = Tensor(numbers(5, 8))
    (x.sin() + 1.625).realize()
    with Context(NOOPT=1):
        (x.sin() + 1.625).realize()
        (x.sin() + 1.625).realize()
    (x.sin() + 1.625).realize()
    assert len(planned) == 2


def divided_here(x, y):
    return x // y


def divided_there(x, y):
    return x // y


def test_errors_name_the_lines_of_the_program_that_fails():
    recipe.forget()
    x = Tensor([4, 6, 9])
    np.testing.assert_array_equal(divided_here(x, Tensor([2, 3, 1])).numpy(), [2, 2, 9])
    for function in (divided_there, divided_here):
        made = function(x, Tensor([1, 0, 3]))
        with pytest.raises(ZeroDivisionError) as caught:
            made.realize()
        line = function.__code__.co_firstlineno + 1
        assert f"{__file__}:{line}:" in str(caught.value)
        assert str(caught.value).count("built at") == 1


def test_the_check_that_failed_is_the_one_that_is_named():
    recipe.forget()
    x = Tensor(np.arange(4))
    for index, divisor, error in (([1, 2], [1, 1], None), ([1, 9], [1, 1], IndexError),
                                  ([1, 2], [1, 0], ZeroDivisionError)):  # fmt: skip
        made = x[Tensor(index)] // Tensor(divisor)
        if error is None:
            made.realize()
        else:
            with pytest.raises(error):
                made.realize()


def test_bound_variables_share_a_recipe(planned):
    source = numbers(6, 10, 4)
    n = Variable("n", 1, 10)
    x = Tensor(source)
    for size in (3, 10, 1, 7):
        bound = n.bind(size)
        np.testing.assert_array_equal((x[:bound] * 2).sum(0).numpy(), (source[:size] * 2).sum(0))
        assert (x[:bound] + 1).numpy().shape == (size, 4)
    assert len(planned) == 2


def test_two_variables_are_not_one():
    source = numbers(7, 9)
    x, n, m = Tensor(source), Variable("n", 1, 9), Variable("m", 1, 9)
    for a, b in ((2, 5), (5, 2), (4, 4)):
        for first, second in ((n, m), (m, n)):
            made = x[: first.bind(a)].sum() - 2 * x[: second.bind(b)].sum()
            assert made.item() == source[:a].sum() - 2 * source[:b].sum()


def test_random_numbers_are_drawn_anew(planned):
    Tensor.manual_seed(3)
    drawn = [Tensor.rand(20).numpy() for _ in range(4)]
    assert len({values.tobytes() for values in drawn}) == 4
    assert len(planned) == 1
    Tensor.manual_seed(3)
    with measuring():  # not by recipe
        np.testing.assert_array_equal([Tensor.rand(20).numpy() for _ in range(4)], drawn)


def test_writes_and_views():
    recipe.forget()
    for seed in range(3):
        a = numbers(seed, 6, 4)
        x = Tensor(a)
        row, kept = x[2], x + 0
        for step in range(3):
            x[1:3] += step
            row *= 2
            a[1:3] += step
            a[2] *= 2
            np.testing.assert_array_equal(x.numpy(), a)
            np.testing.assert_array_equal(row.numpy(), a[2])
        np.testing.assert_array_equal(kept.numpy(), numbers(seed, 6, 4))


@pytest.mark.parametrize("seed", range(30))
def test_random_graphs(seed, planned):
    """The same graph over other numbers: by recipe, as the interpreter of graphs has it."""
    for numbers_seed in range(3):
        random = Random(seed)
        roots = random_graph(random, dtypes.float32, random.randint(2, 9))
        shuffled = np.random.default_rng(numbers_seed)
        for node in {n for root in roots for n in root.toposort() if not n.src}:
            values = getattr(node.arg, "values", None)
            if values is not None:
                shuffled.shuffle(values.reshape(-1))
        for got, root in zip(compute(roots), roots, strict=True):
            np.testing.assert_array_equal(got, evaluate(root))
    assert len(planned) == 1


def test_several_devices(planned):
    devices = ("CPU", "CPU:1")
    for seed in range(3):
        a, b = numbers(seed, 4, 6), numbers(seed + 5, 4, 6)
        x, y = Tensor(a).shard(devices, 0), Tensor(b).shard(devices, 0)
        np.testing.assert_array_equal((x + y).sum(1).numpy(), (a + b).sum(1))
        np.testing.assert_array_equal((x * y).sum(0).to("CPU:1").numpy(), (a * b).sum(0))


def test_training_plans_a_step_once(planned):
    Tensor.manual_seed(0)
    layer = nn.Linear(6, 3)
    optimiser = nn.optim.Adam(layer.parameters(), lr=0.01)
    x, y = Tensor(numbers(8, 5, 6)), Tensor([0, 1, 2, 0, 1])
    losses = []
    for _ in range(6):
        optimiser.zero_grad()
        loss = layer(x).cross_entropy(y)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
        if len(losses) == 3:
            planned.clear()
    assert losses == sorted(losses, reverse=True)
    assert not planned


def test_a_recipe_keeps_no_large_memory():
    recipe.forget()
    for _ in range(2):
        x = Tensor(numbers(9, recipe.MOST_BYTES)).realize()
        made = (x + 1).realize()
        alive = [weakref.ref(t._storage.base.src[0].arg if t._storage.base.src
                             else t._storage.base.arg) for t in (x, made)]  # fmt: skip
        del x, made
        gc.collect()
        assert [one() for one in alive] == [None, None]


def test_small_results_are_used_again_when_nobody_holds_them():
    recipe.forget()
    x, places, held = Tensor(numbers(9, 100)).realize(), [], []
    for turn in range(8):
        made = (x + 1).realize()
        places.append(made.data().tobytes() and made._storage.base.arg.address)
        if turn % 4 == 3:
            held.append(made)
        np.testing.assert_array_equal(made.numpy(), numbers(9, 100) + 1)
        del made
        x = Tensor(numbers(9, 100)).realize()
    assert len({tensor._storage.base.arg.address for tensor in held}) == 2
    assert len(set(places)) <= 5


def test_one_value_in_two_shapes():
    for _ in range(4):
        x = Tensor(numbers(9, 12)).realize()
        one, other = x + 1, (x + 1).reshape(3, 4)
        Tensor.realize(one, other)
        assert (one.shape, other.shape) == ((12,), (3, 4))
        np.testing.assert_array_equal(one.numpy(), numbers(9, 12) + 1)
        np.testing.assert_array_equal(other.numpy(), (numbers(9, 12) + 1).reshape(3, 4))


def test_intermediates_have_the_memory_of_two_and_give_it_back():
    """Of 6 stored values of 1 MB in a row two are needed at once, the result among them."""
    recipe.forget()
    x = Tensor(numbers(1, 512, 512)).realize()
    for _ in range(2):
        y = x
        for _ in range(6):
            y = (y.flip(0) + 1).contiguous()
        y.realize()
        np.testing.assert_array_equal(y.numpy(), numbers(1, 512, 512) + 6)
    (kept,) = recipe._recipes.values()
    assert len(kept.graph.commands) == 6
    assert kept.graph.peak_bytes <= 2.1 * x.nbytes


def test_who_watches_sees_every_run(capsys):
    x = Tensor(numbers(2, 11)).realize()
    (x * 3).realize()
    with measuring() as measured:
        (x * 3).realize()
        (x * 3).realize()
    assert len(measured.runs) == 2 and measured.operations > 0
    with Context(DEBUG=2):
        (x * 3).realize()
    assert "x * 3" in capsys.readouterr().err
