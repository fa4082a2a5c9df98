"""Programs as they are first written, without a jit: time of the first, second and 100th pass.

python -m bench.plain            # torpor beside PyTorch, each program in a process of its own
python -m bench.plain torpor rows   # one of them: three times in seconds, as JSON
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from random import Random
from typing import Any, Final

import numpy as np

from bench import process

PASSES: Final = 120
LATE: Final = slice(90, None)  # passes whose median counts as the hundredth
LIBRARIES: Final = ("torpor", "torch")
RANDOM: Final = np.random.default_rng(0)


def tensor(lib: Any, array: Any) -> Any:
    """The array as a tensor of the library."""
    return lib.from_numpy(array.copy()) if lib.__name__ == "torch" else lib.Tensor(array).realize()


def descent(lib: Any) -> Callable[[int], float]:
    """Least squares, the step written by hand."""
    x = tensor(lib, RANDOM.standard_normal((500, 20)).astype(np.float32))
    y = tensor(lib, RANDOM.standard_normal(500).astype(np.float32))
    w = tensor(lib, np.zeros(20, np.float32)).requires_grad_()

    def step(_: int) -> float:
        loss = ((x @ w - y) ** 2).mean()
        loss.backward()
        with lib.no_grad():
            w.sub_(w.grad * 0.1) if lib.__name__ == "torch" else w.assign(w - w.grad * 0.1)
        w.grad = None
        return float(loss.item())

    return step


def minibatches(lib: Any) -> Callable[[int], float]:
    """A small network on slices of its data, with an optimiser."""
    x = tensor(lib, RANDOM.standard_normal((20_000, 64)).astype(np.float32))
    y = tensor(lib, RANDOM.integers(0, 10, 20_000))
    nn = lib.nn
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimiser = (lib.optim if lib.__name__ == "torch" else nn.optim).Adam(model.parameters())

    def step(n: int) -> float:
        rows = slice(n * 128, n * 128 + 128)
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        loss.backward()
        optimiser.step()
        return float(loss.item())

    return step


def crops(lib: Any) -> Callable[[int], float]:
    """A crop at a random place of images."""
    images = tensor(lib, RANDOM.standard_normal((16, 3, 64, 64)).astype(np.float32))
    places = RANDOM.integers(0, 16, (PASSES, 2)).tolist()

    def step(n: int) -> float:
        top, left = places[n]
        cut = images[:, :, top : top + 48, left : left + 48]
        return float(((cut - 0.5) * 2).abs().mean().item())

    return step


def rows(lib: Any) -> Callable[[int], float]:
    """A row of a table after the other."""
    table = tensor(lib, RANDOM.standard_normal((PASSES, 1000)).astype(np.float32))
    return lambda n: float((table[n] * 2).sum().item())


def cache(lib: Any) -> Callable[[int], float]:
    """Rows written to a cache, all of which is read each time."""
    kept = tensor(lib, np.zeros((PASSES, 256), np.float32))
    new = tensor(lib, RANDOM.standard_normal((PASSES, 256)).astype(np.float32))

    def step(n: int) -> float:
        kept[n] = new[n] * 2
        return float((kept @ new[n]).max().item())

    return step


def growing(lib: Any) -> Callable[[int], float]:
    """Inputs of a length that grows."""
    w = tensor(lib, RANDOM.standard_normal((64, 64)).astype(np.float32))

    def step(n: int) -> float:
        x = tensor(lib, RANDOM.standard_normal((n + 3, 64)).astype(np.float32))
        return float(((x @ w).softmax(-1) * x).sum(0).max().item())

    return step


def carried(lib: Any) -> Callable[[int], float]:
    """A value that is carried on, with a rate that falls, and only looked at."""
    state = [tensor(lib, np.ones(1000, np.float32))]

    def step(n: int) -> float:
        state[0] = state[0] - 0.99**n * (state[0] * 0.1)
        return float(state[0].sum().item())

    return step


def sampling(lib: Any) -> Callable[[int], float]:
    """Tokens from a small transformer, with a cache made by `cat`."""
    nn, width, heads, kinds = lib.nn, 64, 4, 100
    embedding, head = nn.Embedding(kinds, width), nn.Linear(width, kinds)
    layers = [
        [nn.Linear(*shape) for shape in ((width, 3 * width), (width, width), (width, 4 * width),
                                         (4 * width, width))] for _ in range(2)
    ]  # fmt: skip
    cache: list[Any] = [None] * len(layers)
    token = [1]

    def attended(number: int, joint: Any) -> Any:
        parts = (part.reshape(1, heads, -1).transpose(0, 1) for part in joint.chunk(3, -1))
        query, key, value = parts
        if cache[number] is not None:
            before = cache[number]
            key = lib.cat([before[0], key], dim=1)
            value = lib.cat([before[1], value], dim=1)
        cache[number] = key, value
        weights = (query @ key.transpose(-1, -2) / 4).softmax(-1)
        return (weights @ value).transpose(0, 1).reshape(1, width)

    def step(_: int) -> float:
        with lib.no_grad():
            x = embedding(tensor(lib, np.array(token)))
            for number, (joint, out, up, down) in enumerate(layers):
                x = x + out(attended(number, joint(x)))
                x = x + down(nn.functional.gelu(up(x)))
            token[0] = int(head(x).argmax().item())
        return float(token[0])

    return step


def adam(lib: Any, *modules: Any) -> Any:
    """An optimiser of the parameters of modules."""
    kinds = lib.optim if lib.__name__ == "torch" else lib.nn.optim
    return kinds.Adam([parameter for module in modules for parameter in module.parameters()])


def stepped(optimiser: Any, loss: Any) -> float:
    """The loss, after a step of the optimiser."""
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    return float(loss.item())


def vae(lib: Any) -> Callable[[int], float]:
    """A variational autoencoder on slices of its data."""
    nn = lib.nn
    x = tensor(lib, RANDOM.random((2000, 196)).astype(np.float32))
    encoder, decoder = (
        nn.Sequential(nn.Linear(a, 128), nn.ReLU(), nn.Linear(128, b))
        for a, b in ((196, 32), (16, 196))
    )
    optimiser = adam(lib, encoder, decoder)

    def step(n: int) -> float:
        batch = x[n * 64 % 1900 : n * 64 % 1900 + 64]
        mean, log = encoder(batch).chunk(2, -1)
        made = decoder(mean + (log / 2).exp() * lib.randn(64, 16))
        loss = nn.functional.binary_cross_entropy_with_logits(made, batch, reduction="sum")
        return stepped(optimiser, (loss - (1 + log - mean**2 - log.exp()).sum() / 2) / 64)

    return step


def residual(lib: Any) -> Callable[[int], float]:
    """A small network of convolutions with batch norm."""
    nn = lib.nn
    x = tensor(lib, RANDOM.standard_normal((400, 3, 16, 16)).astype(np.float32))
    y = tensor(lib, RANDOM.integers(0, 10, 400))
    first = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
    blocks = [
        nn.Sequential(
            nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16),
        ) for _ in range(2)
    ]  # fmt: skip
    last = nn.Linear(16, 10)
    optimiser = adam(lib, first, *blocks, last)

    def step(n: int) -> float:
        rows = slice(n * 16 % 384, n * 16 % 384 + 16)
        made = first(x[rows])
        for block in blocks:
            made = nn.functional.relu(made + block(made))
        return stepped(optimiser, nn.functional.cross_entropy(last(made.mean((2, 3))), y[rows]))

    return step


def lstm(lib: Any) -> Callable[[int], float]:
    """An LSTM on slices of its data."""
    x = tensor(lib, RANDOM.standard_normal((500, 12, 16)).astype(np.float32))
    y = tensor(lib, RANDOM.standard_normal((500, 1)).astype(np.float32))
    cell, head = lib.nn.LSTM(16, 32, batch_first=True), lib.nn.Linear(32, 1)
    optimiser = adam(lib, cell, head)

    def step(n: int) -> float:
        rows = slice(n * 8 % 480, n * 8 % 480 + 8)
        found = head(cell(x[rows])[0][:, -1])
        return stepped(optimiser, ((found - y[rows]) ** 2).mean())

    return step


def forced(lib: Any) -> Callable[[int], float]:
    """Sequences of 3 to 9 words by a cell whose next input a coin chooses: the word, or its own."""
    words, cell, head = lib.nn.Embedding(40, 48), lib.nn.GRUCell(48, 48), lib.nn.Linear(48, 40)
    optimiser = adam(lib, words, cell, head)

    def step(n: int) -> float:
        coin = Random(n)
        given = tensor(lib, np.array([coin.randrange(40) for _ in range(coin.randint(4, 10))]))
        word, state, loss = given[:1], lib.zeros(1, 48), 0.0
        for place in range(1, len(given)):
            state = cell(words(word), state)
            found, target = head(state), given[place : place + 1]
            loss = loss + lib.nn.functional.cross_entropy(found, target)
            word = target if coin.random() < 0.5 else found.argmax(1).detach()
        return stepped(optimiser, loss)

    return step


def trees(lib: Any) -> Callable[[int], float]:
    """A network over trees of 3 to 12 leaves, each of another form."""
    leaves = tensor(lib, RANDOM.standard_normal((12, 1, 32)).astype(np.float32))
    join, head = lib.nn.Linear(64, 32), lib.nn.Linear(32, 2)
    optimiser = adam(lib, join, head)

    def value(coin: Random, first: int, last: int) -> Any:
        if last - first == 1:
            return leaves[first]
        middle = coin.randint(first + 1, last - 1)
        parts = value(coin, first, middle), value(coin, middle, last)
        return lib.tanh(join(lib.cat(parts, 1)))

    def step(n: int) -> float:
        coin = Random(n)
        found, kind = value(coin, 0, coin.randint(3, 12)), coin.randrange(2)
        target = tensor(lib, np.array([kind]))
        return stepped(optimiser, lib.nn.functional.cross_entropy(head(found), target))

    return step


PROGRAMS: Final = {
    p.__name__: p
    for p in (
        descent, minibatches, crops, rows, cache, growing, carried, sampling, vae, residual, lstm,
        forced, trees,
    )
}  # fmt: skip


def timed(name: str, program: str) -> list[float]:
    """Seconds of the first, the second and the hundredth pass, and of the slowest after the third;
    and thousands of megabytes that the passes after the 40th added.
    """
    step = PROGRAMS[program](process.library(name))
    times, before = [], 0.0
    for n in range(PASSES):
        started = time.perf_counter()
        step(n)
        times.append(time.perf_counter() - started)
        before = resident() if n == 40 else before
    late = float(np.median(times[LATE]))
    return [times[0], times[1], late, max(times[3:]), (resident() - before) / 1e3]


def resident() -> float:
    """Megabytes that the process has had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """A table of all programs; or one of them, in this process."""
    if len(sys.argv) == 3:
        print(json.dumps(timed(*sys.argv[1:])))
        return
    print("Milliseconds; and megabytes that the passes after the 40th added.\n")
    names = "1st | 2nd | 100th | slowest after the 3rd | MB"
    print(f"| program | torpor: {names} | torch: {names} | 100th / torch |")
    print(f"|{'---|' * 12}")
    for program in PROGRAMS:
        ours, theirs = (process.answer("bench.plain", name, program) for name in LIBRARIES)
        cells = [f"{seconds * 1e3:.2f}" for seconds in (*ours, *theirs)]
        print(f"| {program} | {' | '.join(cells)} | {ours[2] / theirs[2]:.1f} |", flush=True)


if __name__ == "__main__":
    main()
