"""Schedules on disk: what is found there means what planning anew does."""

import numpy as np
import pytest

import torpor
from torpor import Context, Tensor, Variable, jit, nn
from torpor.ir.uop import UOp
from torpor.pipeline import disk, recipe, route


@pytest.fixture(autouse=True)
def folder(tmp_path):
    with Context(CACHE_DIR=str(tmp_path)):
        yield tmp_path / disk.SCHEDULES


@pytest.fixture
def planned(monkeypatch):
    """The graphs that have been planned; a new process begins when `forget` is called."""
    graphs = []
    plan = route.planned

    def counted(*arguments):
        graphs.append(arguments)
        return plan(*arguments)

    monkeypatch.setattr(route, "planned", counted)
    recipe.forget()
    return graphs


def begin_anew(planned):
    recipe.forget()
    planned.clear()


def numbers(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def several(x, w):
    """Enough for several kernels."""
    for _ in range(3):
        x = (x @ w).softmax(-1) + x.std(0)
    return x


def expected(x, w):
    x, w = x.astype(np.float64), w.astype(np.float64)
    for _ in range(3):
        y = np.exp(x @ w)
        x = y / y.sum(-1, keepdims=True) + x.std(0, ddof=1)
    return x


def test_a_graph_that_another_process_has_computed_is_not_planned(planned):
    x, w = numbers(9, 8), numbers(8, 8)
    first = several(Tensor(x), Tensor(w)).numpy()
    assert len(planned) == 1
    begin_anew(planned)
    np.testing.assert_array_equal(several(Tensor(x), Tensor(w)).numpy(), first)
    assert not planned
    np.testing.assert_allclose(several(Tensor(-x), Tensor(w)).numpy(), expected(-x, w), rtol=1e-4)


def test_loops_that_another_process_has_computed_are_not_planned(planned):
    def found():
        x = Tensor(np.arange(12.0))
        end, before = torpor.scan(lambda c, y: (c * 2 + y, c), x[0], x)
        least = torpor.while_loop(lambda n: n < 100, lambda n: n * 3, Tensor(1))
        end.realize(before, least)
        return [end.item(), before.tolist(), least.item()]

    end, before = 0.0, []
    for y in range(12):
        before.append(end)
        end = end * 2 + y
    assert found() == [end, before, 243]
    begin_anew(planned)
    assert found() == [end, before, 243]
    assert planned == []


def test_other_constants_shapes_and_settings_are_planned(planned):
    x, w = numbers(9, 8), numbers(8, 8)
    several(Tensor(x), Tensor(w)).realize()
    begin_anew(planned)
    (several(Tensor(x), Tensor(w)) * 3).realize()
    several(Tensor(x[:5]), Tensor(w)).realize()
    with Context(KERNEL_SIZE=3):
        several(Tensor(x), Tensor(w)).realize()
    assert len(planned) == 3


def test_a_damaged_entry_is_planned_anew(planned, folder):
    x, w = numbers(9, 8), numbers(8, 8)
    first = several(Tensor(x), Tensor(w)).numpy()
    for path in folder.iterdir():
        path.write_bytes(path.read_bytes()[:-3])
    begin_anew(planned)
    np.testing.assert_array_equal(several(Tensor(x), Tensor(w)).numpy(), first)
    assert len(planned) == 1


def looked_up(table, index):
    return several(table[index], table[:8] * 0.1)


def test_a_check_that_fails_says_as_much_as_without_the_disk(planned):
    table, index = Tensor(numbers(20, 8)), np.arange(9, dtype=np.int32)
    looked_up(table, Tensor(index)).realize()
    said = []
    for _ in range(2):
        begin_anew(planned)
        with pytest.raises(IndexError) as error:
            looked_up(table, Tensor(index + 14)).realize()
        said.append(str(error.value).splitlines()[0])
        disk.clear()
    assert said[0] == said[1] and ": 20" in said[0]


def test_values_of_variables_are_those_of_the_graph(planned):
    x, w = Tensor(numbers(30, 8)), Tensor(numbers(8, 8))
    rows = Variable("rows", 1, 30)
    several(x[: rows.bind(9)], w).sum().realize()
    begin_anew(planned)
    found = several(x[: rows.bind(12)], w).sum().item()
    assert not planned
    assert found == pytest.approx(expected(x.numpy()[:12], w.numpy()).sum(), rel=1e-4)


def test_a_step_of_training_is_not_planned_where_it_was_before(planned):
    x, y = Tensor(numbers(6, 8)), Tensor(np.arange(6, dtype=np.int32) % 4)

    def losses():
        Tensor.manual_seed(3)
        model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
        optimiser = nn.optim.Adam(nn.state.get_parameters(model), lr=0.1)

        @jit
        def step():
            optimiser.zero_grad()
            loss = model(x).cross_entropy(y)
            loss.backward()
            optimiser.step()
            return loss

        return [step().item() for _ in range(6)]

    first = losses()
    assert losses() == first  # now all generators are as they will be
    begin_anew(planned)
    assert losses() == first
    sizes = [len(UOp.sink(*(node for node, _ in graph[0])).toposort()) for graph in planned]
    assert max(sizes, default=0) < 40, "only what is small is planned again"


def test_clearing_the_cache_clears_schedules(planned, folder):
    several(Tensor(numbers(9, 8)), Tensor(numbers(8, 8))).realize()
    assert list(folder.iterdir())
    disk.clear()
    assert not list(folder.iterdir())


def test_results_of_one_loop_that_are_sums_are_told_apart():
    x = numbers(5, 3)

    def step(carry, row):
        after = carry * 0.5 + row
        return after, (after + 1, row + after * after)

    _, (first, second) = torpor.scan(step, Tensor.zeros(3), Tensor(x))
    assert not np.allclose(first.numpy(), second.numpy())
    carry, wanted = np.zeros(3), []
    for row in x:
        carry = carry * 0.5 + row
        wanted.append((carry + 1, row + carry * carry))
    for found, number in ((first, 0), (second, 1)):
        assert np.allclose(found.numpy(), [one[number] for one in wanted], atol=1e-5)
