"""Differential equations by `scan`: pendulums swing, and a damping is found by its gradient.

Runge and Kutta's method of fourth order is one function; the loop over time stays a loop, which is
compiled once and can be differentiated. Some seconds.
"""

import argparse
import math
from collections.abc import Callable

import matplotlib.pyplot as plt

from torpor import Tensor, scan, value_and_grad

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=400, help="of the method, in 20 seconds")
parser.add_argument("--out", default="ode.png")
options = parser.parse_args()
SECONDS = 20.0


def solve(slope: Callable[[Tensor], Tensor], start: Tensor, steps: int) -> Tensor:
    """States [time, ...] after each step, of y' = slope(y) from y = start on."""
    h = SECONDS / steps

    def step(y: Tensor, _: None) -> tuple[Tensor, Tensor]:
        a = slope(y)
        b = slope(y + h / 2 * a)
        c = slope(y + h / 2 * b)
        y = y + h / 6 * (a + 2 * b + 2 * c + slope(y + h * c))
        return y, y

    return scan(step, start, length=steps)[1]


def spring(damping: Tensor | float) -> Callable[[Tensor], Tensor]:
    """x'' = -x - 2 damping x', as slopes of y = [x, x']."""
    return lambda y: Tensor.stack([y[1], -y[0] - 2 * damping * y[1]])


def closed_form(damping: float, steps: int) -> Tensor:
    """x of the spring that starts at 1 and rests, at the same times, in float64."""
    time = Tensor.arange(1, steps + 1).double() * (SECONDS / steps)
    turns = math.sqrt(1 - damping**2)
    return (-damping * time).exp() * ((turns * time).cos() + damping / turns * (turns * time).sin())


rest = Tensor([1.0, 0.0], dtype="float64")
errors = {}
for steps in (options.steps // 4, options.steps // 2, options.steps):
    found = solve(spring(0.1), rest, steps)[:, 0]
    errors[steps] = (found - closed_form(0.1, steps)).abs().max().item()
    print(f"{steps:4} steps: the largest error is {errors[steps]:.1e}")

measured = closed_form(0.1, 100)
away = value_and_grad(lambda d: (solve(spring(d), rest, 100)[:, 0] - measured).square().mean())
damping = Tensor(0.3, dtype="float64")
for _ in range(30):
    loss, slope = away(damping)
    damping = (damping - 0.1 * slope).realize()
print(f"the spring that was measured has the damping {damping.item():.4f}")

# Many pendulums at once: y[angle or speed, pendulum].
starts = Tensor.stack([Tensor.linspace(-6, 6, 25), Tensor.linspace(-2.4, 2.4, 25)])
paths = solve(lambda y: Tensor.stack([y[1], -y[0].sin() - 0.1 * y[1]]), starts, options.steps)
angle, speed = Tensor.cat([starts.unsqueeze(0), paths]).numpy().transpose(1, 0, 2)
figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
axes.plot(angle, speed, linewidth=0.8)
axes.set(xlabel="angle of a pendulum", ylabel="its speed")
figure.savefig(options.out)
