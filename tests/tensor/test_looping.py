"""Loops: against loops of NumPy, finite differences, and the same steps written one by one."""

import _thread
import signal
import threading

import numpy as np
import pytest

import torpor
from torpor import Context, Tensor, Variable, dtypes, jit

NUMBERS = np.random.default_rng(7)
ROWS = NUMBERS.normal(size=(4, 3, 4))
START = NUMBERS.normal(size=(3, 5))
ENTER = NUMBERS.normal(size=(4, 5)) / 2
AGAIN = NUMBERS.normal(size=(5, 5)) / 3


def tensors(*arrays):
    return [Tensor(array, dtype=dtypes.float64, requires_grad=True) for array in arrays]


def recurrent(start, rows, enter, again, **options):
    def step(h, x):
        h = (x @ enter + h @ again).tanh()
        return h, (h * x.sum(-1, keepdim=True)).sum(-1)

    return torpor.scan(step, start, rows, **options)


def by_numpy(start, rows, enter, again, reverse=False):
    h, found = start, []
    for x in rows[::-1] if reverse else rows:
        h = np.tanh(x @ enter + h @ again)
        found.append((h * x.sum(-1, keepdims=True)).sum(-1))
    return h, np.array(found[::-1] if reverse else found)


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("jitted", [False, True])
def test_scan_is_the_loop_that_it_says(count, reverse, jitted):
    def run(*given):
        return recurrent(*given, reverse=reverse)

    given = START, ROWS[:count], ENTER, AGAIN
    wanted = by_numpy(*given, reverse)
    call = jit(run) if jitted else run
    for _ in range(3 if jitted else 1):
        found = call(*tensors(*given))
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one.numpy(), other, rtol=1e-12, atol=1e-12)


def slopes(value, given):
    """For each array, a direction and how fast the value changes that way."""
    for number, one in enumerate(given):
        way = NUMBERS.normal(size=one.shape)
        near = [
            value(*(a + sign * 1e-5 * way if n == number else a for n, a in enumerate(given)))
            for sign in (1, -1)
        ]
        yield way, (near[0] - near[1]) / 2e-5


@pytest.mark.parametrize("reverse", [False, True])
def test_gradients_are_slopes_and_so_are_gradients_of_them(reverse):
    given = START, ROWS, ENTER, AGAIN

    def value(*arrays):
        end, ys = by_numpy(*arrays, reverse)
        return (ys * ys).sum() + np.exp(end).sum()

    def gradients(*arrays):
        leaves = tensors(*arrays)
        end, ys = recurrent(*leaves, reverse=reverse)
        first = ((ys * ys).sum() + end.exp().sum()).gradient(*leaves)
        return leaves, first, sum((one * one).sum() for one in first)

    leaves, first, square = gradients(*given)
    second = square.gradient(*leaves)
    for one, (way, slope) in zip(first, slopes(value, given), strict=True):
        np.testing.assert_allclose((one.numpy() * way).sum(), slope, rtol=1e-6)
    steep = slopes(lambda *arrays: gradients(*arrays)[2].item(), given)
    for one, (way, slope) in zip(second, steep, strict=True):
        np.testing.assert_allclose((one.numpy() * way).sum(), slope, rtol=1e-6)


def test_backward_reaches_the_leaves_that_a_step_uses():
    weight = Tensor([2.0, 3.0], requires_grad=True)
    end, _ = torpor.scan(lambda c, x: (c * weight + x, None), Tensor([1.0, 1.0]), Tensor.ones(2, 2))
    end.sum().backward()
    assert end.tolist() == [7.0, 13.0]  # w**2 + w + 1
    assert weight.grad.tolist() == [5.0, 7.0]  # 2 w + 1


def test_gradients_flow_only_where_somebody_asks():
    rows = Tensor(ROWS, requires_grad=True)
    _, ys = torpor.scan(lambda c, x: (c + 1, (x * c).detach() + x), 0.0, rows)
    (found,) = ys.sum().gradient(rows)
    assert (found.numpy() == 1).all()


# --- trees, formats, lengths ----------------------------------------------------------------------
def test_trees_of_carries_and_rows_keep_their_structure():
    def step(carry, x):
        carry = {"n": carry["n"] + 1, "pair": (carry["pair"][1], carry["pair"][0] + x["b"])}
        return carry, [x["a"] * carry["n"], {"odd": carry["n"] % 2 == 1}]

    init = {"n": 0, "pair": (Tensor([1.0]), Tensor([10.0]))}
    xs = {"a": Tensor([1, 2, 3]), "b": Tensor([[0.5], [0.25], [0.125]])}
    carry, (first, second) = torpor.scan(step, init, xs)
    assert carry["n"].item() == 3
    assert [one.tolist() for one in carry["pair"]] == [[10.25], [1.625]]
    assert first.tolist() == [1, 4, 9]
    assert second["odd"].tolist() == [True, False, True]


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "float16", "float64"])
def test_carries_of_every_kind(dtype):
    rows = Tensor([1, 0, 1, 1]).cast(dtype)
    end, ys = torpor.scan(lambda c, x: (c ^ x if dtype == "bool" else c + x, c), rows[0], rows)
    wanted = [1, 0, 0, 1] if dtype == "bool" else [1, 2, 2, 3]
    assert end.dtype is ys.dtype is rows.dtype
    assert ys.cast("int32").tolist() == wanted
    assert end.cast("int32").item() == (0 if dtype == "bool" else 4)


def test_a_length_in_place_of_rows():
    end, ys = torpor.scan(lambda c, x: (c * 2, c), 1, length=5)
    assert (end.item(), ys.tolist()) == (32, [1, 2, 4, 8, 16])


def test_no_steps():
    end, ys = torpor.scan(lambda c, x: (c + x, (c, x * 2)), Tensor([1.0]), Tensor.zeros(0, 1))
    assert end.tolist() == [1.0]
    assert [one.shape for one in ys] == [(0, 1), (0, 1)]


def test_carries_that_change_places_and_values_that_never_change():
    (a, b, c), ys = torpor.scan(lambda c, _: ((c[1], c[0], c[2]), c), (1, 2, 3), length=3)
    assert (a.item(), b.item(), c.item()) == (2, 1, 3)
    assert [one.tolist() for one in ys] == [[1, 2, 1], [2, 1, 2], [3, 3, 3]]


def test_what_is_the_same_at_each_step_is_repeated():
    other = Tensor([5.0, 6.0])
    end, ys = torpor.scan(lambda c, x: (other, (other + 1, 7)), Tensor([0.0, 0.0]), length=2)
    assert end.tolist() == [5.0, 6.0]
    assert ys[0].tolist() == [[6.0, 7.0]] * 2
    assert ys[1].tolist() == [7, 7]


# --- loops in loops -------------------------------------------------------------------------------
def test_loops_in_loops_and_their_gradients():
    given = START[:2], NUMBERS.normal(size=(3, 4, 2, 5)), START[2]

    def run(start, rows, weight):
        def outer(c, x):
            c, inner = torpor.scan(lambda d, y: ((d * weight + y).sin(), d), c + x.sum(0), x)
            return c, inner.sum(0) * c

        return torpor.scan(outer, start, rows)

    def value(c, rows, weight):
        total = 0
        for x in rows:
            c, inner = c + x.sum(0), 0
            for y in x:
                c, inner = np.sin(c * weight + y), inner + c
            total += (inner * c).sum()
        return (c * c).sum() + total

    end, ys = run(*(leaves := tensors(*given)))
    loss = (end * end).sum() + ys.sum()
    np.testing.assert_allclose(loss.item(), value(*given), rtol=1e-12)
    for one, (way, slope) in zip(loss.gradient(*leaves), slopes(value, given), strict=True):
        np.testing.assert_allclose((one.numpy() * way).sum(), slope, rtol=1e-6)


def test_a_gradient_taken_inside_of_a_step():
    def step(x, _):
        value, slope = torpor.value_and_grad(lambda one: ((one - 3) ** 2).sum())(x)
        return x - 0.25 * slope, value

    end, ys = torpor.scan(step, Tensor([1.0]), length=3)
    assert end.tolist() == [2.75]
    assert ys.tolist() == [4.0, 1.0, 0.25]


# --- what is compiled -----------------------------------------------------------------------------
def kernels(count):
    given = tensors(START, NUMBERS.normal(size=(count, 3, 4)), ENTER, AGAIN)
    end, ys = recurrent(*given)
    loss = (ys * ys).sum() + end.sum()
    return loss.schedule(*loss.gradient(*given))


def test_a_loop_is_as_many_kernels_for_any_number_of_steps():
    """A step and a step back come again and again; sums and products that need no carry, the
    gradients of weights above all, are done once for all steps.
    """
    few, many = kernels(50), kernels(500)
    assert len(few) == len(many) < 40
    assert [item.reason for item in few] == [item.reason for item in many]
    assert sum(item.jump is not None for item in many) == 4  # where rounds begin and end
    for sums in (few, many):
        written = [item.buffers[0].arg.size for item in sums if not item.variables]
        assert {ENTER.size, AGAIN.size} <= {*written}


@pytest.mark.parametrize("count", [3, 9, 10, 11, 12])
@pytest.mark.parametrize("watched", [False, True])
def test_rounds_and_what_is_left_of_them(count, watched):
    """Carries whose places take turns, forwards and backwards, and rows inside of rows."""

    def run(x):
        (a, b), _ = torpor.scan(lambda c, y: ((c[1], c[0] * 2 + y), None), (x[0], x[0] * 0), x)
        _, ys = torpor.scan(lambda c, y: (c + y, c), x[0] * 0, x, reverse=True)
        _, zs = torpor.scan(
            lambda c, y: (c + 1, torpor.scan(lambda d, e: (d * 2 + e, d), c, x)[1] + y), x[0] * 0, x
        )
        return a, b, ys, zs

    x = np.arange(1, count + 1)
    a, b = 1, 0
    for y in x:
        a, b = b, a * 2 + y
    zs = np.zeros((count, count), int)
    for row in range(count):
        d = row
        for column in range(count):
            zs[row, column], d = d + x[row], d * 2 + x[column]
    wanted = a, b, x[::-1].cumsum()[::-1] - x, zs
    with Context(DEBUG=2 if watched else 0):
        call = run if watched else jit(run)
        for _ in range(1 if watched else 3):
            for one, other in zip(call(Tensor(x)), wanted, strict=True):
                np.testing.assert_array_equal(one.numpy(), other)


# --- branches -------------------------------------------------------------------------------------
def test_cond_runs_one_of_two_functions():
    ran = []
    first = torpor.cond(True, lambda x: ran.append(1) or x + 1, lambda x: ran.append(2) or x, 3)
    second = torpor.cond(Tensor(0) > 1, lambda x: ran.append(1) or x, lambda x: x * 2, Tensor([3]))
    assert (first, second.tolist(), ran) == (4, [6], [1])


def test_cond_in_a_jitted_function_and_in_a_step():
    @jit
    def run(x):
        big = torpor.cond(x.sum() > 3, lambda y: {"a": y * 2}, lambda y: {"a": y - 1}, x)["a"]
        _, ys = torpor.scan(
            lambda c, one: (c, torpor.cond(one > 1, Tensor.exp, lambda z: -z, one)), 0, x
        )
        return big, ys

    for numbers in ([1.0, 2.0, 3.0], [0.5, 0.5, 2.0], [0.0, 0.5, 4.0]):
        big, ys = run(Tensor(numbers))
        assert big.tolist() == [n * 2 if sum(numbers) > 3 else n - 1 for n in numbers]
        wanted = [np.exp(n) if n > 1 else -n for n in numbers]
        np.testing.assert_allclose(ys.numpy(), wanted, rtol=1e-6)
    assert "1 traces" in str(torpor.explain(run)) or str(torpor.explain(run)).count("trace") == 1


def test_gradients_come_from_the_branch_that_is_taken_only():
    weight = Tensor([3.0], requires_grad=True)

    @jit
    def run(x):
        y = torpor.cond(x.sum() > 0, lambda a: (a.log() * weight).sum(), lambda a: (a * 5).sum(), x)
        return y, *y.gradient(x, weight)

    for _ in range(3):
        taken = run(Tensor([2.0], requires_grad=True))
        other = run(Tensor([0.0], requires_grad=True))  # log(0): its slope is infinite
        np.testing.assert_allclose(
            [one.item() for one in taken], [3 * np.log(2), 1.5, np.log(2)], 1e-6
        )
        assert [one.item() for one in other] == [0.0, 5.0, 0.0]


def test_nothing_raises_in_the_branch_that_is_not_taken():
    table = Tensor([10, 20, 30])

    def looked_up(x):
        inside = torpor.scan(lambda c, i: (c + table[i] // i, None), 0, x)[0]
        return table[x[0]] + inside + (100 // x).sum() + x.sum()

    @jit
    def run(x):
        return torpor.cond((x > 0).all() & (x < 3).all(), looked_up, lambda x: x[0] * 0 - 1, x)

    assert run(Tensor([1, 2])).item() == 20 + (20 + 15) + (100 + 50) + 3
    assert run(Tensor([1, 2])).item() == 208
    assert run(Tensor([0, 7])).item() == -1

    @jit
    def wrong(x):
        return torpor.cond(x[0] >= 0, looked_up, lambda x: x[0], x)

    assert wrong(Tensor([-1, 9])).item() == -1
    with pytest.raises((IndexError, ZeroDivisionError)):
        wrong(Tensor([0, 9])).item()


@pytest.mark.parametrize("jitted", [False, True])
def test_just_one_of_two_branches_with_loops_runs(jitted):
    """The other one would not end."""

    def endless(x):
        return torpor.while_loop(lambda y: y < 1, lambda y: y - 1, x)

    def run(x):
        return torpor.cond(x > 0, lambda: x * 2, lambda: endless(x))

    def each(xs):
        return torpor.scan(lambda c, x: (c, run(x)), 0, xs)[1]

    call, every = (jit(run), jit(each)) if jitted else (run, each)
    for number in (1, 2, 3):
        assert call(Tensor(number)).item() == 2 * number
        assert every(Tensor([number, 5])).tolist() == [2 * number, 10]


def test_gradients_of_both_orders_through_branches_with_products():
    weight = NUMBERS.normal(size=(3, 3))

    @jit
    def run(x, w):
        y = torpor.cond(x.sum() > 0, lambda a: (a @ w).exp().sum(), lambda a: (a @ w @ w).sum(), x)
        first = y.gradient(x, w)
        return y, *first, *(first[0] ** 2).sum().gradient(x, w)

    for sign in (1, -1, 1):
        x = sign * np.array([[0.5, 1.0, 0.25]])
        given = [Tensor(a, requires_grad=True) for a in (x, weight)]
        found = [one.numpy() for one in run(*given)]
        a, w = (Tensor(one, requires_grad=True) for one in (x, weight))
        y = (a @ w).exp().sum() if sign > 0 else (a @ w @ w).sum()
        first = y.gradient(a, w)
        second = (first[0] ** 2).sum().gradient(a, w)
        for one, other in zip(found, (y, *first, *second), strict=True):
            np.testing.assert_allclose(one, other.numpy(), rtol=1e-9, atol=1e-12)


def test_branches_that_differ_are_an_error():
    def run(x):
        return torpor.cond(x.sum() > 0, lambda y: y, lambda y: y.sum(), x)

    with pytest.raises(ValueError, match=r"float32 \(2,\) of then and float32 \(\) of otherwise"):
        jit(run)(Tensor([1.0, 2.0]))


def test_a_branch_leaves_nothing_behind():
    total = Tensor([0.0])
    run = jit(lambda x: torpor.cond(x.sum() > 0, lambda y: total.add_(y), lambda y: y, x))
    with pytest.raises(RuntimeError, match="cannot write to a tensor from outside"):
        run(Tensor([1.0]))


# --- while ----------------------------------------------------------------------------------------
def collatz(state):
    n, steps = state
    return torpor.where(n % 2 == 0, n // 2, 3 * n + 1), steps + 1


def rounds(n):
    return torpor.while_loop(lambda state: state[0] != 1, collatz, (n, 0))


@pytest.mark.parametrize("jitted", [False, True])
def test_while_loop_goes_on_as_long_as_it_says(jitted):
    call = jit(rounds) if jitted else rounds
    for start, wanted in ((27, 111), (1, 0), (7, 16), (97, 118)):
        n, steps = call(Tensor(start))
        assert (n.item(), steps.item()) == (1, wanted)
    if jitted:
        assert "replayed 3 times" in str(torpor.explain(call))


@pytest.mark.parametrize("jitted", [False, True])
def test_while_loop_in_steps_and_rounds(jitted):
    def run(starts):
        _, counts = torpor.scan(lambda c, n: (c, rounds(n)[1]), 0, starts)

        def halve(state):
            x, total = state
            inner = torpor.while_loop(lambda y: y.sum() < x.sum(), lambda y: y + starts, starts * 0)
            return x // 2, total + inner

        return counts, torpor.while_loop(lambda s: s[0].sum() > 3, halve, (starts, starts * 0))[1]

    call = jit(run) if jitted else run
    for starts in ([27, 1, 7, 97], [4, 8, 1, 2]):
        counts, total = call(Tensor(starts))
        wanted, x = np.zeros(4, int), np.array(starts)
        while x.sum() > 3:
            wanted += -(-x.sum() // sum(starts)) * np.array(starts)
            x //= 2
        known = {27: 111, 1: 0, 7: 16, 97: 118, 4: 2, 8: 3, 2: 1}
        assert counts.tolist() == [known[n] for n in starts]
        assert total.tolist() == wanted.tolist()


def test_what_a_loop_reads_stays_until_it_ends():
    """Products, sums and constants that come before the loop, read in every round and after it."""
    rows = NUMBERS.normal(size=(64, 64))

    @jit
    def run(a, rounds):
        b = (a @ a) / 64
        c = b.sin()
        end, _ = torpor.while_loop(
            lambda s: s[1] < rounds, lambda s: ((s[0] @ b + c) / 8, s[1] + 1), (c, 0)
        )
        return end + c.sum(), b

    for count in (0, 1, 5):
        end, b = run(Tensor(rows), Tensor(count))
        wanted_b = rows @ rows / 64
        c = wanted = np.sin(wanted_b)
        for _ in range(count):
            wanted = (wanted @ wanted_b + c) / 8
        np.testing.assert_allclose(b.numpy(), wanted_b, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(end.numpy(), wanted + c.sum(), rtol=1e-9, atol=1e-9)


def test_while_loop_watched_kernel_by_kernel_is_the_same():
    with Context(DEBUG=2):
        assert rounds(Tensor(27))[1].item() == 111


def test_while_loop_on_the_interpreter():
    assert rounds(Tensor(6, device="PYTHON"))[1].item() == 8


def test_checks_in_rounds_raise():
    table = Tensor([1, 2, 5])
    run = jit(lambda n: torpor.while_loop(lambda i: i < 5, lambda i: table[i], n))
    assert run(Tensor(0)).item() == 5
    with pytest.raises(IndexError, match="out of bounds"):
        run(Tensor(-7)).item()
    assert run(Tensor(7)).item() == 7


def test_while_loop_has_no_gradient_and_refuses_what_it_cannot_do():
    x = Tensor([1.0], requires_grad=True)
    end = torpor.while_loop(lambda y: y.sum() < 10, lambda y: y * 2, x)
    assert not end.requires_grad
    with pytest.raises(ValueError, match="while_loop: the carry is"):
        torpor.while_loop(lambda y: y.sum() < 3, lambda y: y.reshape(1, 1), x)
    with pytest.raises(ValueError, match="random numbers in a while_loop"):
        torpor.while_loop(lambda y: y.sum() < 3, lambda y: y + Tensor.rand(1), x)
    with pytest.raises(ValueError, match="needs one bool"):
        torpor.while_loop(lambda y: y < 3, lambda y: y + 1, Tensor([1.0, 2.0]))


# --- sizes that are variables ---------------------------------------------------------------------
def test_steps_of_a_variable_size_are_those_of_that_size():
    rows = NUMBERS.normal(size=(3, 10, 4))
    for size in (4, 7):
        n = Variable("n", 1, 10).bind(size)
        x, start = Tensor(rows)[:, :n], Tensor(np.zeros((10, 5)))[:n]
        end, ys = recurrent(start, x, Tensor(ENTER), Tensor(AGAIN))
        wanted = by_numpy(np.zeros((size, 5)), rows[:, :size], ENTER, AGAIN)
        np.testing.assert_allclose(end.sum().item(), wanted[0].sum(), rtol=1e-9)
        np.testing.assert_allclose(ys.sum().item(), wanted[1].sum(), rtol=1e-9)
        _, sums = torpor.scan(lambda c, y, x=x: (c, (x * y).sum()), 0, Tensor([1.0, 2.0]).double())
        np.testing.assert_allclose(sums.numpy(), rows[:, :size].sum() * np.array([1, 2]))


@pytest.mark.parametrize("jitted", [False, True])
def test_an_endless_while_loop_ends_at_ctrl_c(jitted):
    def count_to(end):
        return torpor.while_loop(lambda n: n != end, lambda n: n + 1, end * 0)

    counting = jit(count_to) if jitted else count_to
    old = signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupting = threading.Timer(0.5, _thread.interrupt_main)
    try:
        for end in (3, 1000, 5):  # compiled, and by native replays
            assert int(counting(Tensor(float(end))).item()) == end
        interrupting.start()
        with pytest.raises(KeyboardInterrupt):
            counting(Tensor(0.5)).item()
        assert int(counting(Tensor(1000.0)).item()) == 1000
    finally:
        interrupting.join()
        signal.signal(signal.SIGINT, old)
