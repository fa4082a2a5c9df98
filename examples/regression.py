"""A curve through noisy points: a small network, Adam, one jitted step; about 3 seconds."""

import argparse

import matplotlib.pyplot as plt

from torpor import Tensor, jit, manual_seed, nn, no_grad

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=1000)
parser.add_argument("--out", default="regression.png")
options = parser.parse_args()

manual_seed(0)
x = Tensor.uniform(200, 1, low=-3, high=3)
y = (2 * x).sin() + 0.3 * x + 0.15 * Tensor.randn(200, 1)
model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
optimiser = nn.optim.Adam(model.parameters(), lr=1e-2)


@jit  # traced at the first call; the others run its kernels and no Python
def step() -> Tensor:
    optimiser.zero_grad()
    loss = (model(x) - y).square().mean()
    loss.backward()
    optimiser.step()
    return loss.detach()


losses = []
for number in range(options.steps):
    losses.append(step())  # not read yet: the loop does not wait for it
    if number % max(1, options.steps // 10) == 0:
        print(f"step {number:4}: loss {losses[-1].item():.4f}")
losses = Tensor.stack(losses).tolist()
print(f"the end: loss {losses[-1]:.4f}, of which the noise is about {0.15**2:.4f}")

line = Tensor.linspace(-3, 3, 300).reshape(-1, 1)
with no_grad():
    curve = model(line)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
left.scatter(x.numpy(), y.numpy(), s=8, color="silver", label="points")
left.plot(line.numpy(), curve.numpy(), label="network")
left.legend()
right.semilogy(losses)
right.set(xlabel="step", ylabel="squared error")
figure.savefig(options.out)
