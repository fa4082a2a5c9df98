"""Numbers that a jitted function asks of tensors: constant as long as they are what they were."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import torpor
from torpor import Context, Tensor, explain, jit
from torpor.base.errors import CaptureError

rng = np.random.default_rng(5)
X = rng.standard_normal((6, 3)).astype(np.float32)
M = np.array([True, False, True, True, False, False])
OTHER = np.array([False, True, False, False, False, False])


def traces(function):
    return [line for line in explain(function).splitlines() if line.startswith("  trace")]


def replays(function):
    return sum(int(line.split("replayed ")[1].split()[0]) for line in traces(function))


def check(found, expected):
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_a_mask_from_outside_is_replayed():
    mask = Tensor(M)

    @jit
    def pick(x):
        return x[mask] * 2

    for number in range(9):
        x = X + number
        check(pick(Tensor(x)), x[M] * 2)
    assert replays(pick) == 7
    assert "guards the numbers of mask" in explain(pick)
    assert "runs as it is" not in explain(pick)


def test_a_mask_among_the_arguments_is_replayed():
    @jit
    def pick(x, mask):
        return x[mask].sum(0), x[~mask]

    mask = Tensor(M)
    for number in range(9):
        x = X * number
        chosen, rest = pick(Tensor(x), mask)
        check(chosen, x[M].sum(0))
        check(rest, x[~M])
    assert replays(pick) == 7
    assert "guards the numbers of tensor 1" in explain(pick)


def test_a_mask_that_is_computed_inside_of_constants_is_traced_at_once():
    @jit
    def off_diagonal(x):
        return x[~Tensor.eye(3).bool()].reshape(3, 2)

    with Context(JIT="strict"):
        for number in range(6):
            x = X[:3] + number
            check(off_diagonal(Tensor(x)), x[~np.eye(3, dtype=bool)].reshape(3, 2))
    assert replays(off_diagonal) == 5


def test_what_follows_from_constants_is_no_kernel_of_a_replay():
    mask = Tensor(M)

    @jit
    def plain(x, index):
        return x[index] * 2

    @jit
    def masked(x):
        return x[mask & (Tensor.arange(6) > 0)] * 2

    index = Tensor(np.flatnonzero(M & (np.arange(6) > 0)))
    for _ in range(3):
        plain(Tensor(X), index)
        check(masked(Tensor(X)), X[M & (np.arange(6) > 0)] * 2)
    kernels = [traces(one)[0].split(": ")[1].split()[0] for one in (plain, masked)]
    assert kernels[0] == kernels[1]


def test_a_gradient_step_matches_numpy():
    w = Tensor(np.ones((3, 2), np.float32), requires_grad=True)
    optimizer = torpor.nn.optim.SGD([w], lr=0.1)
    x, mask = Tensor(X), Tensor(M)

    @jit
    def step():
        optimizer.zero_grad()
        loss = ((x @ w)[mask] ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss

    expected = np.ones((3, 2))
    for _ in range(6):
        check(step(), ((X @ expected)[M] ** 2).sum())
        expected -= 0.1 * 2 * X[M].T @ (X[M] @ expected)
        check(w.detach(), expected)
    assert replays(step) >= 3


def writes():
    def item(mask):
        mask[0] = False

    def whole(mask):
        mask.copy_(Tensor(OTHER))

    def operator(mask):
        mask &= Tensor(OTHER)

    def flipped(mask):
        mask[1:3].logical_not_()

    def lent(mask):
        mask.numpy(copy=False)[:2] = [False, True]

    def buffer(mask):
        np.asarray(mask.data())[3] = False

    return [item, whole, operator, flipped, lent, buffer]


@pytest.mark.parametrize("write", writes(), ids=lambda write: write.__name__)
@pytest.mark.parametrize("outside", [True, False])
def test_a_mask_that_is_written_to_is_seen(write, outside):
    mask = Tensor(M).realize()

    @jit
    def from_outside(x):
        return x[mask]

    @jit
    def passed(x, mask):
        return x[mask]

    def call(x):
        return from_outside(x) if outside else passed(x, mask)

    for number in range(6):
        check(call(Tensor(X + number)), (X + number)[M])
    write(mask)
    after = np.array(mask.tolist())
    assert after.tolist() != M.tolist()
    for number in range(6):
        check(call(Tensor(X + number)), (X + number)[after])
    assert replays(from_outside if outside else passed) >= 6


def test_memory_that_is_shared_with_an_array_is_looked_at():
    array = M.copy()
    mask = Tensor.from_numpy(array)

    @jit
    def pick(x):
        return x[mask]

    for _ in range(5):
        check(pick(Tensor(X)), X[M])
    array[:] = OTHER
    for _ in range(5):
        check(pick(Tensor(X)), X[OTHER])
    assert replays(pick) >= 4


def test_a_jitted_function_that_writes_the_mask_is_seen():
    mask = Tensor(M).realize()

    @jit
    def flip():
        mask.copy_(~mask)

    @jit
    def pick(x):
        return x[mask]

    now = M
    for number in range(12):
        check(pick(Tensor(X)), X[now])
        if number % 4 == 3:
            flip()
            now = ~now
    assert replays(pick) >= 4


def test_another_name_and_another_storage_are_seen():
    masks = {"now": Tensor(M)}

    @jit
    def pick(x):
        return x[masks["now"]]

    for now in (M, OTHER, M, ~M):
        masks["now"] = Tensor(now)
        for _ in range(4):
            check(pick(Tensor(X)), X[now])


def test_masks_that_take_turns_have_a_trace_each():
    @jit
    def count(x, mask):
        return x[mask].sum()

    masks = [M, OTHER, ~M]
    given = [Tensor(mask) for mask in masks]
    for number in range(30):
        check(count(Tensor(X), given[number % 3]), X[masks[number % 3]].sum())
    assert len(traces(count)) == 3
    assert replays(count) == 24


def test_equal_numbers_in_another_tensor_are_the_same():
    @jit
    def pick(x, mask):
        return x[mask]

    for _ in range(6):
        check(pick(Tensor(X), Tensor(M)), X[M])
    assert replays(pick) == 4


def test_a_view_as_a_mask():
    masks = Tensor(np.stack([M, M, OTHER]))

    @jit
    def pick(x, mask):
        return x[mask]

    for number in (0, 1, 0, 1, 2, 2, 2, 0):
        check(pick(Tensor(X), masks[number]), X[[M, M, OTHER][number]])
    assert replays(pick) >= 3


def test_a_mask_that_is_another_one_each_time_runs_as_it_is():
    @jit
    def pick(x, mask):
        return x[mask]

    for number in range(12):
        mask = rng.random(6) < 0.5
        mask[number % 6] ^= True
        check(pick(Tensor(X + number), Tensor(mask)), (X + number)[mask])
    runs = 0

    @jit
    def counted(x):
        nonlocal runs
        runs += 1
        return x * 2 if x.sum().item() > 0 else x

    for number in range(12):
        x = X - number
        check(counted(Tensor(x)), x * 2 if x.sum() > 0 else x)
    assert not traces(counted)
    assert "runs as it is, since it reads the value" in explain(counted)


def test_a_mask_of_what_the_function_changes():
    mask = Tensor(M).realize()

    @jit
    def pick(x):
        chosen = x[mask]
        mask.copy_(~mask)
        return chosen

    now = M
    for _ in range(9):
        check(pick(Tensor(X)), X[now])
        now = ~now
        assert mask.tolist() == now.tolist()


def test_a_read_after_a_write_inside():
    total = Tensor([0])

    @jit
    def count(x):
        total.add_(1)
        return x * total.item()

    for number in range(1, 9):
        check(count(Tensor(X)), X * number)


def test_random_masks_are_drawn_anew():
    @jit
    def pick(x):
        return x[Tensor.rand(64) < 0.5].sum()

    x = Tensor.ones(64)
    assert len({pick(x).item() for _ in range(12)}) > 2
    assert not traces(pick)


def test_masks_of_numbers_among_the_arguments():
    @jit
    def above(x, least):
        return x[x > least]

    x = Tensor(X)
    for least in (0.1, 0.1, 0.1, 0.1, 0.7, 0.7, 0.7, 0.1):
        check(above(x, least), X[least < X])


def test_branches_on_numbers_of_tensors():
    flag, scale = Tensor([True]), Tensor([3])

    @jit
    def run(x):
        return x * int(scale) if flag else x

    for now, by in ((True, 3), (False, 3), (True, 5)):
        flag.fill_(now)
        scale.fill_(by)
        for number in range(5):
            check(run(Tensor(X + number)), (X + number) * (by if now else 1))
    assert replays(run) >= 6


def test_what_a_function_keeps_of_what_it_read():
    scale, seen, last = Tensor([3]), [], {}

    @jit
    def run(x):
        seen.append(scale.item())
        last["scale"] = scale.item()
        return x * 2

    for number in range(1, 7):
        last.clear()
        check(run(Tensor(X)), X * 2)
        assert seen == [3] * number
        assert last == {"scale": 3}


def test_numbers_are_appended_at_each_replay():
    scale, seen = Tensor([3.0]), []

    @jit
    def run(x):
        seen.append(scale.item())
        return x * 2

    for number in range(1, 7):
        run(Tensor(X))
        assert seen == [3.0] * number
    assert replays(run) == 4


def test_results_that_are_numbers_or_places():
    mask = Tensor(M)

    @jit
    def run(x):
        return mask.sum().item(), mask.nonzero(), mask.tolist(), x[mask], ~mask

    for _ in range(5):
        count, places, listed, chosen, rest = run(Tensor(X))
        assert count == 3
        assert places.tolist() == np.argwhere(M).tolist()
        assert listed == M.tolist()
        check(chosen, X[M])
        assert rest.tolist() == (~M).tolist()
        listed.clear()
        places += 1
        rest.logical_not_()
    assert replays(run) == 3


def test_an_array_that_looks_into_memory_can_be_written_to():
    scale = Tensor([1.0, 2.0]).realize()

    @jit
    def run(x):
        scale.numpy(copy=False)[0] += 1
        made = x * 0
        made.numpy(copy=False)[1] = 5
        return x * scale, made

    for number in range(6):
        product, made = run(Tensor([1.0, 1.0]))
        assert product.tolist() == [2.0 + number, 2.0]
        assert made.tolist() == [0.0, 5.0]


def test_gradients_that_are_read():
    w = Tensor(np.ones(3, np.float32), requires_grad=True)
    (w * 2).sum().backward()

    @jit
    def run(x):
        return x * w.grad.sum().item()

    for number in range(1, 7):
        check(run(Tensor(X)), X * 6 * number)
        (w * 2).sum().backward()
    for _ in range(5):
        check(run(Tensor(X)), X * 42)
    w.grad = None
    w.grad = Tensor([1.0, 0.0, 0.0])
    check(run(Tensor(X)), X)


def test_large_tensors_are_not_compared():
    x = Tensor.ones(1 << 19).realize()  # 2 MiB: summing them takes no longer than comparing

    @jit
    def run(scale):
        return scale * x.sum().item()

    for _ in range(4):
        assert run(Tensor([1.0])).tolist() == [1 << 19]
    assert not traces(run)


def test_what_is_read_of_arguments_is_strictly_an_error_first():
    @jit
    def pick(x, mask):
        return x[mask]

    with Context(JIT="strict"), pytest.raises(CaptureError, match="reads the value"):
        pick(Tensor(X), Tensor(M))


def test_checks_still_hold():
    index = Tensor([0, 5, 2])

    @jit
    def run(x, size):
        return x[index[index > 0]] + size

    for _ in range(4):
        check(run(Tensor(X), Tensor([1.0])), X[[5, 2]] + 1)
    with pytest.raises(IndexError):
        run(Tensor(X[:4]), Tensor([1.0])).realize()


def test_threads_with_masks_of_their_own():
    @jit
    def pick(x, mask):
        return x[mask]

    wrong = []

    def work(mask):
        given = Tensor(mask)
        for number in range(20):
            found = pick(Tensor(X + number), given).numpy()
            if not np.array_equal(found, (X + number)[mask]):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(mask,)) for mask in (M, OTHER, ~M)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
