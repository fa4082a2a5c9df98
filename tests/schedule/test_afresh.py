"""A limit of memory: values are computed afresh where it takes that, the same to the bit."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from torpor import Context, Tensor, explain, jit
from torpor.base.errors import MemoryLimitError
from torpor.nn.optim import SGD
from torpor.schedule.limit import Limit, limited

ROWS, WIDTH, LAYERS = 64, 16, 12
ACTIVATION, WEIGHT = ROWS * WIDTH * 4, WIDTH * WIDTH * 4


def arrays():
    random = np.random.default_rng(0)
    weights = [random.standard_normal((WIDTH, WIDTH)) / 4 for _ in range(LAYERS)]
    return [one.astype(np.float32) for one in (random.standard_normal((ROWS, WIDTH)), *weights)]


def network():
    """What a step of a deep network gives: its loss and gradients, not computed yet."""
    x, *weights = (Tensor(one).realize() for one in arrays())
    weights = [one.requires_grad_() for one in weights]
    for weight in weights:
        x = (x @ weight).tanh()
    loss = (x * x).mean()
    return [loss, *loss.gradient(*weights)]


def computed(tensors):
    Tensor.realize(*tensors)
    return [one.numpy() for one in tensors]


def peak(items):
    """The most bytes at a time of what kernels hand each other, and of what nobody reads."""
    last = {buffer: n for n, item in enumerate(items) for buffer in item.buffers}
    read = {b for item in items for n, b in enumerate(item.buffers) if n not in item.outputs}
    made, most = {}, 0
    for number, item in enumerate(items):
        made |= {item.buffers[n]: item.buffers[n].arg.nbytes for n in item.outputs}
        live = [b for b in made if b in read and last[b] >= number]
        most = max(most, sum(made[b] for b in live))
    return most + sum(size for buffer, size in made.items() if buffer not in read)


def test_what_fits_stays_as_it_is():
    plain = network()
    wanted = len(Tensor.schedule(*plain))
    limit = Limit(2 * LAYERS * ACTIVATION)
    with limited(limit):
        assert len(Tensor.schedule(*network())) == wanted
    assert not limit.economies


@pytest.mark.parametrize("kept", [10, 9, 8])
def test_what_does_not_fit_is_computed_again_to_the_same_bits(kept):
    wanted = computed(network())
    limit = Limit(kept * ACTIVATION + LAYERS * WEIGHT + 4)
    with limited(limit):
        assert peak(Tensor.schedule(*network())) <= limit.bytes
        made = computed(network())
    for one, other in zip(wanted, made, strict=True):
        np.testing.assert_array_equal(one, other)
    economy = limit.economies[0]
    assert economy.now <= limit.bytes < economy.before
    assert economy.values > 0
    assert economy.more > 0


def test_less_memory_costs_more_operations():
    costs = []
    for kept in (12, 10, 8):
        limit = Limit(kept * ACTIVATION + LAYERS * WEIGHT + 4)
        with limited(limit):
            Tensor.schedule(*network())
        costs.append(limit.economies[0].more)
    assert costs == sorted(costs)
    assert costs[0] < costs[-1]


def test_what_cannot_be_is_an_error_that_says_the_least():
    with limited(Limit(3 * ACTIVATION)), pytest.raises(MemoryLimitError, match="at least") as told:
        Tensor.schedule(*network())
    least = int(str(told.value).split("at least ")[1].split()[0])
    assert 3 * ACTIVATION < least < LAYERS * ACTIVATION
    with limited(Limit(least)):
        assert Tensor.schedule(*network())
    assert isinstance(told.value, MemoryError)


def trained(**options):
    """Losses of a jitted step, and what `explain` says of it."""
    x, *weights = (Tensor(one) for one in arrays())
    optimiser = SGD([one.requires_grad_() for one in weights], lr=0.5)

    @jit(**options)
    def step(x):
        optimiser.zero_grad()
        for weight in weights:
            x = (x @ weight).tanh()
        loss = (x * x).mean()
        loss.backward()
        optimiser.step()
        return loss

    return [step(x).item() for _ in range(5)], explain(step)


def test_a_jitted_step_keeps_to_its_limit_and_says_what_it_costs():
    wanted, plain = trained()
    assert "memory_limit" not in plain
    found, told = trained(memory_limit=10 * ACTIVATION + 2 * LAYERS * WEIGHT)
    assert found == wanted
    assert "memory_limit: " in told
    assert "values are computed again" in told


def test_a_jitted_step_that_cannot_keep_to_it_changes_nothing():
    with Context(JIT="1"), pytest.raises(MemoryLimitError, match="memory_limit=4096"):
        trained(memory_limit=4096)


MEASURED = """
import sys
import numpy as np
from torpor import Tensor, explain, jit
from torpor.nn.optim import SGD

random = np.random.default_rng(0)
weights = [random.standard_normal((32, 32)).astype(np.float32) / 8 for _ in range(16)]
weights = [Tensor(one, requires_grad=True).realize() for one in weights]
x = Tensor(random.standard_normal((1 << 16, 32)).astype(np.float32)).realize()
optimiser = SGD(weights, lr=0.1)

@jit(memory_limit=int(sys.argv[1]) or None)
def step(x):
    optimiser.zero_grad()
    for weight in weights:
        x = (x @ weight).tanh()
    loss = x.square().mean()
    loss.backward()
    optimiser.step()
    return loss

for _ in range(3):
    step(x).item()
(planned,) = [line for line in explain(step).splitlines() if " takes " in line]
(most,) = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
print(planned.split()[1], int(most.split()[1]) * 1024)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux for its memory")
def test_the_planned_peak_is_what_a_process_takes(tmp_path):
    def run(limit):
        """The planned and the measured peak, in bytes."""
        cold = str(tmp_path / str(limit))  # what compilers take is in both
        done = subprocess.run(
            [sys.executable, "-c", MEASURED, str(limit)],
            env={**os.environ, "TORPOR_THREADS": "1", "TORPOR_CACHE_DIR": cold},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        planned, measured = done.stdout.split()
        return float(planned.replace(",", "")) * 1e6, int(measured)

    planned, measured = run(0)
    least, less = run(90_000_000)
    assert least <= 90e6 < planned
    assert measured - less == pytest.approx(planned - least, rel=0.15)
