"""Updates in place: only while nobody else holds a value, with the results of fresh memory."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

from torpor import Tensor, jit, no_grad, while_loop
from torpor.base.errors import OutOfBoundsError
from torpor.capture import successor
from torpor.tensor.storage import buffers_of

SIZE = 4096


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(successor, "LEAST", 1)


@pytest.fixture
def alone() -> None:
    """Skips what needs that no other thread runs, and a Python that counts who holds things."""
    if not successor.COUNTS:
        pytest.skip("this Python does not count every holder")
    if successor.others_run():
        pytest.skip("something else has left a thread running")


def weights(seed: int = 0, shape: tuple[int, ...] = (64, 64)) -> Tensor:
    return Tensor(np.random.default_rng(seed).random(shape, dtype=np.float32)).realize()


def memory_of(tensor: Tensor) -> Any:
    return successor.below(tensor._storage.base).arg.memory


def place(tensor: Tensor) -> int:
    return memory_of(tensor).address  # type: ignore[no-any-return]


def moves(step: Any, weight: Tensor, *others: Any, times: int = 4) -> list[bool]:
    """Whether the value lay elsewhere after each of the last runs of ten."""
    found = []
    for _ in range(10):
        before = place(weight)
        step(weight, *others)
        found.append(place(weight) != before)
    return found[-times:]


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("shape", [(SIZE,), (64, 64)])
def test_a_weight_stays_where_it_is(shape: tuple[int, ...]) -> None:
    weight, slope = weights(0, shape), weights(1, shape)
    start, by = weight.numpy(), slope.numpy()

    @jit
    def step(weight: Tensor, slope: Tensor) -> None:
        weight.assign(weight - slope * 0.5)

    assert moves(step, weight, slope) == [False] * 4
    for _ in range(10):
        start = start - by * np.float32(0.5)
    np.testing.assert_allclose(weight.numpy(), start, rtol=1e-6)


@pytest.mark.usefixtures("alone")
def test_adam_keeps_every_value_in_its_place() -> None:
    parts = [weights(seed) for seed in range(4)]
    expected = [part.numpy().astype(np.float64) for part in parts]

    @jit
    def step(p: Tensor, m: Tensor, v: Tensor, g: Tensor) -> None:
        m.assign(m * 0.9 + g * 0.1)
        v.assign(v * 0.99 + g * g * 0.01)
        p.assign(p - m / (v.sqrt() + 1e-3))

    assert moves(step, *parts) == [False] * 4
    p, m, v, g = expected
    for _ in range(10):
        m, v = m * 0.9 + g * 0.1, v * 0.99 + g * g * 0.01
        p = p - m / (np.sqrt(v) + 1e-3)
    for part, value in zip(parts, (p, m, v, g), strict=True):
        np.testing.assert_allclose(part.numpy(), value, rtol=1e-5, atol=1e-5)


def doubled(weight: Tensor) -> None:
    weight.assign(weight * 2 + 1)


def lazy(weight: Tensor) -> Any:
    return weight + 0.0


def memory(weight: Tensor) -> Any:
    return memoryview(weight.data())


def buffer(weight: Tensor) -> Any:
    return buffers_of(weight._storage.base)[0]


def shared_array(weight: Tensor) -> Any:
    return np.from_dlpack(weight)


@pytest.mark.parametrize("hold", [lazy, memory, buffer, shared_array])
def test_what_somebody_holds_is_kept(hold: Any) -> None:
    """Values that were asked for before a step are those before it, whatever they are held by."""
    weight, step = weights(), jit(doubled)
    for _ in range(6):
        before = weight.numpy()
        kept = hold(weight)
        step(weight)
        np.testing.assert_array_equal(weight.numpy(), before * 2 + 1)
        now = kept.numpy() if hasattr(kept, "numpy") else np.asarray(kept)
        if hold is memory:
            now = np.frombuffer(kept, np.float32)
        np.testing.assert_array_equal(now.reshape(before.shape), before)
        step(weight)


def replaced(weight: Tensor, source: Tensor) -> None:
    weight.assign(source * 2 + 1)


@pytest.mark.usefixtures("alone")
def test_what_is_only_replaced_stays_where_it_is() -> None:
    weight, source = weights(0), weights(1)
    assert moves(jit(replaced), weight, source) == [False] * 4
    np.testing.assert_array_equal(weight.numpy(), source.numpy() * 2 + 1)


@pytest.mark.parametrize("hold", [lazy, memory, buffer, shared_array])
def test_what_is_only_replaced_is_kept_while_somebody_holds_it(hold: Any) -> None:
    weight, sources, step = weights(), [weights(1), weights(2)], jit(replaced)
    for number in range(12):
        step(weight, sources[number % 2])
        before = weight.numpy()
        kept = hold(weight)
        step(weight, sources[1 - number % 2])
        now = np.frombuffer(kept, np.float32) if hold is memory else kept
        now = now.numpy() if hasattr(now, "numpy") else np.asarray(now)
        np.testing.assert_array_equal(now.reshape(before.shape), before)


def test_a_source_that_is_the_value_itself_is_read_first() -> None:
    weight, source, step = weights(0), weights(1), jit(replaced)
    for _ in range(6):
        step(weight, source)
    before = weight.numpy()
    step(weight, weight)
    np.testing.assert_array_equal(weight.numpy(), before * 2 + 1)
    turned = weight.numpy().T
    step(weight, weight.T)
    np.testing.assert_array_equal(weight.numpy(), turned * 2 + 1)


def test_a_value_that_went_elsewhere_is_kept() -> None:
    weight, other, step = weights(), weights(1), jit(doubled)
    for _ in range(6):
        step(weight)
        before = weight.numpy()
        other.assign(weight)
        step(weight)
        np.testing.assert_array_equal(other.numpy(), before)
        np.testing.assert_array_equal(weight.numpy(), before * 2 + 1)


def test_two_weights_of_one_function() -> None:
    first, second, step = weights(0), weights(1), jit(doubled)
    expected = [first.numpy(), second.numpy()]
    for number in range(12):
        weight = (first, second)[number % 2]
        step(weight)
        expected[number % 2] = expected[number % 2] * 2 + 1
        for tensor, value in zip((first, second), expected, strict=True):
            np.testing.assert_array_equal(tensor.numpy(), value)


def test_nothing_has_changed_where_a_check_fails() -> None:
    weight = weights()

    @jit
    def step(weight: Tensor, index: Tensor) -> Tensor:
        weight.assign(weight * 2)
        return weight.reshape(-1)[index]

    good, bad = Tensor(np.array([1, 2])), Tensor(np.array([1, SIZE]))
    for _ in range(6):
        step(weight, good)
    before = weight.numpy()
    with pytest.raises(OutOfBoundsError):
        step(weight, bad)
    np.testing.assert_array_equal(weight.numpy(), before)


def test_with_other_threads_values_get_memory_of_their_own() -> None:
    weight, step, done = weights(), jit(doubled), threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert all(moves(step, weight))
    finally:
        done.set()
        thread.join()


class Monitor(threading.Thread):
    """As a bar of tqdm has one."""

    __module__ = "tqdm._monitor"


class Streams:
    """As a kernel of a notebook has one: a method that a thread runs."""

    def serve(self, done: threading.Event) -> None:
        done.wait()

    serve.__module__ = "ipykernel.iostream"


@pytest.mark.parametrize("notebook", [True, False])
def test_threads_that_are_handed_text_do_not_count(notebook: bool, alone: None) -> None:
    weight, step, done = weights(), jit(doubled), threading.Event()
    thread = (
        threading.Thread(target=Streams().serve, args=(done,))
        if notebook
        else Monitor(target=done.wait)
    )
    thread.start()
    try:
        assert not any(moves(step, weight))
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize("passed", [True, False])
def test_an_old_value_that_is_given_back_is_not_written_over(passed: bool) -> None:
    """`weight * 1` is the value itself: no kernel makes it, and none may change it."""
    weight, one = weights(), Tensor(np.ones((64, 64), np.float32)).realize()
    start, held = weight.numpy(), []

    def body(weight: Tensor, by: Tensor) -> Tensor:
        old = weight * 1
        weight.assign(weight + by)
        return old

    step = jit(body) if passed else jit(lambda _, by: body(weight, by))
    for _ in range(10):
        held.append(step(weight, one))
    expected = [start[0, 0] + n for n in range(10)]
    np.testing.assert_allclose([old.numpy()[0, 0] for old in held], expected, rtol=1e-6)


def test_an_old_value_that_another_tensor_takes_is_not_written_over() -> None:
    first, second, by = weights(0), weights(1), weights(2)
    left, right, add = first.numpy(), second.numpy(), by.numpy()

    @jit
    def step(by: Tensor) -> None:
        first.assign(second * 1)
        second.assign(second + by)

    for _ in range(10):
        step(by)
        left, right = right, right + add
    np.testing.assert_allclose(first.numpy(), left, rtol=1e-6)
    np.testing.assert_allclose(second.numpy(), right, rtol=1e-6)


@pytest.mark.usefixtures("alone")
def test_weights_and_gradients_stay_from_the_first_call_on() -> None:
    """The first call of all is traced, and replayed at its end."""
    weight, state = weights(0).requires_grad_(True), weights(1)
    by = weights(2)
    wanted, kept = weight.numpy().astype(np.float64), state.numpy().astype(np.float64)

    @jit
    def step(by: Tensor) -> None:
        weight.grad = None
        (weight * by).square().sum().backward()
        with no_grad():
            state.assign(state * 0.5 + weight.grad)
            weight.sub_(state * 0.25)

    before, places = (place(weight), place(state)), []
    for _ in range(6):
        step(by)
        places.append((place(weight), place(state), place(weight.grad)))
        kept = kept * 0.5 + 2 * wanted * by.numpy().astype(np.float64) ** 2
        wanted = wanted - kept * 0.25
    assert len(set(places)) == 1
    assert places[0][:2] == before
    np.testing.assert_allclose(weight.numpy(), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("alone")
def test_a_gradient_that_somebody_keeps_is_not_written_over() -> None:
    weight, by = weights(0).requires_grad_(True), [weights(seed) for seed in range(6)]

    @jit
    def step(by: Tensor) -> None:
        weight.grad = None
        (weight * by).sum().backward()

    kept = []
    for one in by:
        step(one)
        kept.append((weight.grad, weight.grad[:5], weight.grad.numpy(copy=False)))
        weight.grad = None if len(kept) % 2 else weight.grad
    for one, seen in zip(by, kept, strict=True):
        for got in seen[:2]:
            np.testing.assert_array_equal(got.numpy(), one.numpy()[: len(got)])
        np.testing.assert_array_equal(seen[2], one.numpy())


def test_no_old_value_is_kept_alive_by_a_trace() -> None:
    weight, by = weights(0).requires_grad_(True), weights(1)
    made: list[Any] = []

    @jit
    def step(by: Tensor) -> None:
        weight.grad = None
        (weight * by).sum().backward()
        with no_grad():
            weight.sub_(weight.grad * 0.5)

    gc.disable()
    try:
        for _ in range(5):
            made.append(weakref.ref(memory_of(weight)))
            step(by)
    finally:
        gc.enable()
    now = memory_of(weight)
    assert {one() for one in made} <= {None, now}


@pytest.mark.usefixtures("alone")
def test_a_late_check_comes_before_what_is_written_over() -> None:
    """The update needs nothing of what is checked: it waits, and a failed step changes nothing."""
    weight, by, other = weights(0), weights(1), weights(2)

    @jit
    def step(index: Tensor) -> Tensor:
        weight.assign(weight - by)
        return (other.flip(0).contiguous() * 2).contiguous()[index]

    good, bad = Tensor([3]).realize(), Tensor([10**9]).realize()
    places = []
    for _ in range(4):
        step(good)
        places.append(place(weight))
    before = weight.numpy()
    with pytest.raises(IndexError):
        step(bad)
    np.testing.assert_array_equal(weight.numpy(), before)
    assert len(set(places[1:])) == 1


def test_what_a_loop_makes_is_made_in_the_loop() -> None:
    weight, other = weights(0), weights(2)
    wanted = weight.numpy().astype(np.float64)

    @jit
    def step(rounds: Tensor, index: Tensor) -> Tensor:
        new, count = while_loop(
            lambda state: state[1] < rounds,
            lambda state: (state[0] + 1, state[1] + 1),
            (weight * 0.5, Tensor(0)),
        )
        weight.assign(new)
        return other[index + count]  # checked after the loop

    index = Tensor([3]).realize()
    for rounds in (3, 1, 4, 0, 2):
        step(Tensor([rounds]).sum().realize(), index)
        wanted = wanted * 0.5 + rounds
        np.testing.assert_allclose(weight.numpy(), wanted, rtol=1e-5)
