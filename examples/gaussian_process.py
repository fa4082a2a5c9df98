"""A Gaussian process learns how smooth a function is, by gradients through Cholesky; seconds.

The logarithm of the likelihood of what was seen depends on three numbers: the length over which
values are alike, how much they vary, and the noise. Adam finds the most likely ones.
"""

import argparse
import math

import matplotlib.pyplot as plt

import torpor
from torpor import Tensor, manual_seed, nn, no_grad

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=150)
parser.add_argument("--out", default="gaussian_process.png")
options = parser.parse_args()


def covariance(a: Tensor, b: Tensor) -> Tensor:
    """How alike the values at a[i] and b[j] are expected to be, [i, j]."""
    length, deviation, _ = logarithms.exp()
    distance = (a.unsqueeze(1) - b.unsqueeze(0)) / length
    return deviation**2 * (-(distance**2) / 2).exp()


def factor() -> Tensor:
    """The lower triangular matrix whose square is the covariance of what was seen."""
    return torpor.linalg.cholesky(covariance(x, x) + logarithms[2].exp() ** 2 * Tensor.eye(len(x)))


def log_likelihood() -> Tensor:
    lower = factor()
    white = torpor.linalg.solve_triangular(lower, y.unsqueeze(1), upper=False)
    half = white.square().sum() / 2 + lower.diagonal().log().sum()
    return -half - len(x) / 2 * math.log(2 * math.pi)


manual_seed(0)
torpor.set_default_dtype("float64")
x = Tensor.cat([Tensor.uniform(20, low=-4, high=0), Tensor.uniform(10, low=2, high=4)]).realize()
y = ((1.5 * x).sin() + 0.1 * Tensor.randn(len(x))).realize()
logarithms = Tensor([3.0, 1.0, 0.5]).log().realize().requires_grad_()  # length, deviation, noise
optimiser = nn.optim.Adam([logarithms], lr=0.1)
likelihoods = []
for number in range(options.steps):
    optimiser.zero_grad()
    value = log_likelihood()
    (-value).backward()
    optimiser.step()
    likelihoods.append(value.item())
    if number % 15 == 0 or number == options.steps - 1:
        print(f"step {number:3}: log-likelihood {likelihoods[-1]:7.2f}")
length, deviation, noise = logarithms.exp().tolist()
print(f"length {length:.2f}, deviation {deviation:.2f}, noise {noise:.3f} (it was 0.1)")

line = Tensor.linspace(-5, 5, 200)
with no_grad():
    lower, across = factor(), covariance(x, line)
    weights = torpor.cholesky_solve(y.unsqueeze(1), lower)
    mean = (across.T @ weights)[:, 0]
    known = torpor.linalg.solve_triangular(lower, across, upper=False).square().sum(0)
    spread = (deviation**2 - known).clamp(min=0).sqrt()
figure, axes = plt.subplots(figsize=(8, 3.5), layout="constrained")
low, high = (mean - 2 * spread).numpy(), (mean + 2 * spread).numpy()
axes.fill_between(line.numpy(), low, high, alpha=0.2, label="where 95 % is expected")
axes.plot(line.numpy(), mean.numpy(), label="mean")
axes.scatter(x.numpy(), y.numpy(), s=12, color="black", label="seen")
axes.legend(loc="upper center")
figure.savefig(options.out)
