"""What one computation used and a later one needs is computed once: loops do not compute their past
again, and compile nothing after their first passes.
"""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import torpor
from torpor import Tensor, nn, no_grad
from torpor.ir.ops import Ops
from torpor.pipeline.report import measuring
from torpor.tensor import again_needed
from torpor.tensor.storage import without_known

RANDOM = np.random.default_rng(3)


def kernels_of(x: Tensor) -> int:
    return len(x.schedule())


def test_a_value_that_is_carried_on_and_never_asked_for(compiled: list[str]) -> None:
    w, kept = Tensor(np.ones(37)).realize(), np.ones(37)
    for n in range(12):
        if n == 3:
            compiled.clear()
        w = w - 0.9**n * (w * 0.5).sin()
        kept = kept - 0.9**n * np.sin(kept * 0.5)
        np.testing.assert_allclose(w.sum().item(), kept.sum(), rtol=1e-12)
    assert compiled == []
    np.testing.assert_allclose(w.numpy(), kept, rtol=1e-12)


def test_what_is_held_and_used_twice_is_computed_once() -> None:
    x = Tensor(RANDOM.standard_normal((19, 23))).realize()
    hidden = (x @ x.T).exp()
    hidden.sum().item()
    other = (hidden * 2).amax()
    other.item()  # from now on it is kept
    again = (hidden + 1).sum(0)
    assert all(buffer.arg.size != 19 * 23 for item in again.schedule() for buffer in item.buffers)
    wanted = (np.exp(x.numpy() @ x.numpy().T) + 1).sum(0)
    np.testing.assert_allclose(again.numpy(), wanted, rtol=1e-10)


def test_tokens_that_are_joined_before_one_is_looked_at(compiled: list[str]) -> None:
    """Greedy decoding with a causal mask: what is joined is never asked for by itself."""
    table = RANDOM.standard_normal((11, 13))
    embedding, project = Tensor(table).realize(), Tensor(table[::-1] * 2).realize()
    tokens, wanted, seen = Tensor([[3]]), [3], []
    for _ in range(30):
        size = tokens.shape[1]
        x, a = embedding[tokens[0]], table[wanted]
        mask = Tensor.full((size, size), -np.inf, dtype="float64").triu(1)
        mixed = (x @ x.T + mask).softmax(-1) @ x
        new = (mixed @ project.T)[-1].argmax().reshape(1, 1)
        tokens = tokens.cat(new, dim=1)
        scores = np.exp(a @ a[-1] - (a @ a[-1]).max())
        wanted.append(int(np.argmax(table[::-1] @ (scores @ a / scores.sum()))))
        assert new.item() == wanted[-1]
        seen.append(len(compiled))
    assert tokens[0].tolist() == wanted
    assert seen[17] == seen[-1], seen


@pytest.mark.parametrize("way", ["cat", "add"])
def test_what_is_made_of_a_value_before_that_is_asked_for(way, compiled: list[str]) -> None:
    """It is computed along with the value once a later pass needed it: its graph does not grow."""
    rows = RANDOM.standard_normal((9, 5))
    ours, kept, seen, sizes = Tensor(rows).realize(), rows, [], []
    total, expected = Tensor([[0.0]], dtype="float64"), [0.0]
    for n in range(24):
        new = (ours * 0.1 * (n % 3)).sum().reshape(1, 1) + total[:, -1:] * 0.5
        total = total.cat(new, dim=1) if way == "cat" else total + new
        wanted = (kept * 0.1 * (n % 3)).sum() + expected[-1] * 0.5
        expected.append(wanted if way == "cat" else expected[-1] + wanted)
        assert new.item() == pytest.approx(wanted)
        sizes.append(len(without_known([total._current()])[0].toposort()))
        seen.append(len(compiled))
    np.testing.assert_allclose(total.numpy()[0], expected if way == "cat" else expected[-1:])
    assert max(sizes[4:]) <= 2, sizes  # memory, and its shape
    assert seen[8] == seen[-1], seen


def test_what_cannot_be_computed_along_fails_only_where_it_is_asked_for() -> None:
    words, table = Tensor([0, 1, 9]), Tensor(np.arange(4.0)).realize()
    for n in range(6):
        at = words[n % 3] + 0
        row = table[at]  # not there, the third time
        assert at.item() == [0, 1, 9][n % 3]
        if n % 3 < 2:
            assert (row + 1).item() == n % 3 + 1
        else:
            with pytest.raises(IndexError):
                row.item()


def test_the_way_back_through_steps_is_computed_once(compiled: list[str]) -> None:
    """Viterbi's algorithm: steps that are kept are looked at from the last one back."""
    change, emit = RANDOM.standard_normal((7, 7)), RANDOM.standard_normal((7, 9))
    ours, theirs, seen = Tensor(change).realize(), Tensor(emit).realize(), []
    for _ in range(5):
        observed = RANDOM.integers(0, 9, 25)
        words, steps, wanted = Tensor(observed), [], []
        best, known = theirs[:, words[0]], emit[:, observed[0]]
        for t in range(1, 25):
            best, step = (best[:, None] + ours).max(0)
            best = best + theirs[:, words[t]]
            steps.append(step)
            wanted.append((known[:, None] + change).argmax(0))
            known = (known[:, None] + change).max(0) + emit[:, observed[t]]
        place = best.argmax().item()
        assert place == known.argmax()
        for step, indices in zip(reversed(steps), reversed(wanted)):
            before, place = indices[place], step[place].item()
            assert place == before
        seen.append(len(compiled))
    assert seen[2] == seen[4], seen


def test_sampling_with_a_cache_made_by_cat(compiled: list[str]) -> None:
    size, heads = 12, 3
    table = RANDOM.standard_normal((10, size))
    weights = RANDOM.standard_normal((3 * size, size)) / 3
    embedding, project = Tensor(table).realize(), Tensor(weights).realize()

    def split(x):
        return [part.reshape(1, heads, size // heads).transpose(0, 1) for part in x.chunk(3, -1)]

    token, keys, values = 1, None, None
    known_token, known = 1, []
    for n in range(14):
        if n == 3:
            compiled.clear()
        with no_grad():
            x = embedding[Tensor([token])]
            query, key, value = split(x @ project.T)
            keys = key if keys is None else Tensor.cat([keys, key], dim=1)
            values = value if values is None else Tensor.cat([values, value], dim=1)
            seen = ((query @ keys.transpose(-1, -2)).softmax(-1) @ values).transpose(0, 1)
            token = int((x + seen.reshape(1, size)).argmax().item()) % 10
        known.append(known_token)
        known_token = wanted_token(table, weights, known, heads)
        assert token == known_token
    assert keys.shape == (heads, 14, size // heads)
    assert compiled == []


def wanted_token(table, weights, tokens, heads):
    """The next token, with everything computed anew."""
    projected = table[tokens] @ weights.T
    query, key, value = np.split(projected, 3, -1)
    query = query[-1].reshape(heads, -1)
    key, value = (part.reshape(len(tokens), heads, -1) for part in (key, value))
    scores = np.einsum("hd,thd->ht", query, key)
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    scores /= scores.sum(-1, keepdims=True)
    return int((table[tokens[-1]] + np.einsum("ht,thd->hd", scores, value).ravel()).argmax()) % 10


def test_a_state_handed_from_step_to_step(compiled: list[str]) -> None:
    cell = RANDOM.standard_normal((7, 7))
    w, state, kept = Tensor(cell).realize(), Tensor(np.zeros(7)).realize(), np.zeros(7)
    for n in range(9):
        if n == 3:
            compiled.clear()
        x = RANDOM.standard_normal(7)
        state = (state @ w + Tensor(x).realize()).tanh()
        kept = np.tanh(kept @ cell + x)
        np.testing.assert_allclose((state * 2).sum().item(), 2 * kept.sum(), rtol=1e-9)
    assert compiled == []


def test_parameters_are_computed_once() -> None:
    layer = nn.Linear(5, 4)
    x = Tensor(RANDOM.standard_normal((3, 5)).astype(np.float32)).realize()
    first = layer(x).sum().item()
    assert kernels_of(layer.weight.detach()) == 0
    assert layer(x).sum().item() == first


def test_an_error_in_what_is_held_is_left_to_who_asks_for_it() -> None:
    x, index = Tensor(np.arange(5.0)).realize(), Tensor([7]).realize()
    for _ in range(3):
        held = x[index]
        inside = Tensor([False]).realize()
        assert inside.where(held, 1.0).sum().item() == 1
        assert (inside.where(held, 1.0) * 3).sum().item() == 3
        with pytest.raises(IndexError, match="7"):
            held.numpy()


def test_what_nobody_holds_any_more_is_let_go() -> None:
    gc.collect()
    x = Tensor(np.ones((50, 50))).realize()
    before = sum(isinstance(one, type(x)) for one in gc.get_objects())
    for _ in range(6):
        y = (x @ x).exp()
        y.sum().item()
        (y + 1).amax().item()
    del y
    gc.collect()
    assert sum(isinstance(one, type(x)) for one in gc.get_objects()) <= before + 1


def test_what_is_carried_on_keeps_little_of_what_it_was_made_of():
    state = Tensor(np.zeros(1000, np.float32)).realize()
    old = []
    for number in range(24):
        x = Tensor(np.full(1000, number, np.float32)).realize()
        old.append(weakref.ref(x._current().below((Ops.RESHAPE,)).arg))
        state = state * 0.5 + x
        (state * 2).sum().item()
    assert (state + 1).sum().item() == pytest.approx(45000.0)
    gc.collect()
    assert not any(memory() for memory in old[:12])


def test_a_state_that_is_left_before_anything_is_asked_for_keeps_little():
    """As evolution strategies do: the next state is there before the score of this one is read."""
    target = RANDOM.standard_normal(50).astype(np.float32)
    expected, old = np.zeros(50, np.float32), []
    state = Tensor(expected).realize()
    for _ in range(60):
        noise = RANDOM.standard_normal((20, 50)).astype(np.float32)
        x = Tensor(noise).realize()
        old.append(weakref.ref(x._current().below((Ops.RESHAPE,)).arg))
        score = -((state + 0.1 * x - Tensor(target)) ** 2).sum(1)
        state = state + 0.05 * (score.argsort().argsort().float() / 19 - 0.5) @ x
        theirs = -((expected + 0.1 * noise - target) ** 2).sum(1)
        expected = expected + 0.05 * (theirs.argsort().argsort() / 19 - 0.5) @ noise
        assert score.max().item() == pytest.approx(theirs.max(), rel=1e-4)
    np.testing.assert_allclose(state.numpy(), expected, rtol=1e-4, atol=1e-5)
    gc.collect()
    assert not any(memory() for memory in old[:24])


def test_parameters_that_are_made_of_numbers_alone():
    """They read no memory, so that nothing is gained by computing them by themselves."""
    weight = Tensor.full((6, 3), 0.5).double().requires_grad_()
    first, second = weight.split(3)
    x = Tensor([[1.0, 2.0, 3.0]], dtype="float64")
    assert (x @ first.T + x @ second.T).tolist() == [[6.0, 6.0, 6.0]]


@pytest.mark.parametrize("kind", ["GRU", "LSTM"])
def test_states_of_loops_that_nobody_asks_for(kind: str, compiled: list[str]) -> None:
    """Backpropagation that ends at the state of the pass before, which is only carried on."""
    layer = getattr(nn, kind)(5, 7, num_layers=2)
    weights = [*layer.parameters()]
    optimiser = nn.optim.SGD(weights, lr=0.1)
    rows = Tensor(RANDOM.standard_normal((60, 2, 5)).astype(np.float32)).realize()

    def detached(state: tuple[Tensor, ...] | Tensor) -> tuple[Tensor, ...] | Tensor:
        if isinstance(state, tuple):
            return tuple(part.detach() for part in state)
        return state.detach()

    state, ages = None, []
    for n in range(12):
        if n == 5:
            compiled.clear()
        out, state = layer(rows[5 * n : 5 * n + 5], None if state is None else detached(state))
        loss = out.square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        ends = state if isinstance(state, tuple) else (state,)
        ages.append(len(ends[0]._node.toposort()))
    assert compiled == []
    assert ages[-1] == ages[4], "what is carried on holds no earlier pass"


def test_the_end_of_a_scan_is_not_computed_twice(compiled: list[str]) -> None:
    total, wanted = Tensor(np.zeros(3)), np.zeros(3)
    rows = RANDOM.standard_normal((20, 6, 3))
    for n, some in enumerate(rows):
        if n == 4:
            compiled.clear()
        total, outs = torpor.scan(lambda c, x: ((c + x).tanh(), c * x), total, Tensor(some))
        before = wanted
        for x in some:
            before, wanted = wanted, np.tanh(wanted + x)
        np.testing.assert_allclose(outs[-1].numpy(), before * some[-1], rtol=1e-10)
        assert len(total._node.toposort()) < 30
    assert compiled == []
    np.testing.assert_allclose(total.numpy(), wanted, rtol=1e-10)


class Inverted(nn.Module):
    """An inverted residual block of an image network, which pads by itself."""

    def __init__(self, inputs: int, outputs: int, stride: int, size: int, times: int) -> None:
        super().__init__()
        wide, self.skips = inputs * times, stride == 1 and inputs == outputs
        self.widen = nn.Sequential(nn.Conv2d(inputs, wide, 1, bias=False), nn.BatchNorm2d(wide))
        before, after = (size - stride) // 2, (size - stride + 1) // 2
        self.pad, self.act = nn.ZeroPad2d((before, after, before, after)), nn.ReLU6()
        self.apart = nn.Conv2d(wide, wide, size, stride, groups=wide, bias=False)
        self.norm = nn.BatchNorm2d(wide)
        self.narrow = nn.Sequential(
            nn.Conv2d(wide, outputs, 1, bias=False), nn.BatchNorm2d(outputs)
        )

    def forward(self, inputs: Tensor) -> Tensor:
        x = self.apart(self.pad(self.act(self.widen(inputs))))
        x = self.narrow(self.act(self.norm(x)))
        return x + inputs if self.skips else x


def test_what_only_calls_were_made_of_is_held_by_nobody() -> None:
    """A deep network in plain passes, parts of which are computed before somebody asks."""
    torpor.manual_seed(1)
    widths = [(4, 8, 1), (8, 12, 2), (12, 12, 1), (12, 16, 2), *[(16, 16, 1)] * 8]
    network = nn.Sequential(*[Inverted(*each, 3, 3) for each in widths]).eval()
    x = Tensor(RANDOM.standard_normal((1, 4, 17, 17)).astype(np.float32)).realize()
    results = []
    with no_grad():
        for _ in range(4):
            y = network(x)
            assert all(node.op is not Ops.PAD for node in again_needed._marks)
            results.append(y.numpy())
    for result in results:
        np.testing.assert_allclose(result, results[0], rtol=1e-4, atol=1e-5)


def test_a_deep_network_is_computed_as_a_whole(compiled: list[str]) -> None:
    """It reads other weights in each layer: no loop that could go on for ever."""
    torpor.manual_seed(3)
    network = nn.Sequential(*[Inverted(6, 6, 1, 3, 2) for _ in range(14)]).eval()
    for parameter in (*network.parameters(), *network.buffers()):
        parameter.realize()
    x = Tensor(RANDOM.standard_normal((1, 6, 9, 9)).astype(np.float32)).realize()
    launched, results = [], []
    with no_grad():
        for number in range(6):
            if number == 1:
                compiled.clear()
            with measuring() as seen:
                results.append(network(x).numpy())
            launched.append(len(seen.runs))
    assert compiled == []
    assert launched == launched[:1] * 6
    for result in results:
        np.testing.assert_array_equal(result, results[0])


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.mixed, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        rows, count, width = x.shape
        parts = self.mixed(x).view(rows, count, 3, 2, width // 2).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(*parts.unbind(0), attn_mask=mask)
        x = self.norms[0](self.out(mixed.transpose(1, 2).reshape(rows, count, width)) + x)
        return self.norms[1](self.narrow(nn.functional.gelu(self.wide(x))) + x)


def test_sentences_of_ever_other_lengths(compiled: list[str]) -> None:
    """More lengths than functions are written down for: no graph is cut elsewhere by that."""
    torpor.manual_seed(2)
    layers = nn.ModuleList([Layer(12) for _ in range(6)]).eval()
    words = RANDOM.standard_normal((2, 40, 12)).astype(np.float32)
    with no_grad():
        for n in range(24):
            length = 5 + n * 7 % 24
            if n == 8:
                compiled.clear()
            x = Tensor(words[:, :length])
            mask = (1 - Tensor(words[:, None, None, :length, 0] < 1).float()) * -1e9
            for layer in layers:
                x = layer(x, mask)
            assert np.isfinite(x.numpy()).all()
    assert compiled == []


def test_a_parameter_that_is_written_to_twice_is_computed_at_once() -> None:
    """As a moving average of parameters that may have gradients does."""
    averages = [nn.Parameter(Tensor(RANDOM.standard_normal(30))) for _ in range(3)]
    wanted = [one.numpy().copy() for one in averages]
    launched = []
    for n in range(6):
        with measuring() as seen:
            with no_grad():
                for number, one in enumerate(averages):
                    one.mul_(0.75)
                    one.add_(n + number, alpha=0.25)
            averages[0].realize()
        launched.append(len(seen.runs))
        wanted = [0.75 * one + 0.25 * (n + number) for number, one in enumerate(wanted)]
    assert launched[-1] <= len(averages)
    for one, value in zip(averages, wanted):
        np.testing.assert_allclose(one.detach().numpy(), value, rtol=1e-6)
