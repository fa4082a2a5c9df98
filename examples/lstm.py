"""A recurrent network goes on with a wave that it has heard; about 10 seconds.

It learns to say the next value of a sum of two tones. Then it hears some of it, and from there on
only itself. The LSTM is a `scan` within: as quick to compile for 1000 values as for 10.
"""

import argparse

import matplotlib.pyplot as plt

from torpor import Tensor, jit, manual_seed, nn, no_grad, scan

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=1000)
parser.add_argument("--out", default="lstm.png")
options = parser.parse_args()
LENGTH, BATCH = 100, 32


def wave(time: Tensor) -> Tensor:
    return ((time / 3).sin() + (time / 7).sin()) / 2


class Listener(nn.Module):
    """Values [batch, time, 1] and a state to the values that come next, and the next state."""

    def __init__(self) -> None:
        self.lstm, self.out = nn.LSTM(1, 48, batch_first=True), nn.Linear(48, 1)

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor] | None = None) -> tuple:
        hidden, state = self.lstm(x, state)
        return self.out(hidden), state


manual_seed(0)
model = Listener()
optimiser = nn.optim.Adam(model.parameters(), lr=1e-2)
schedule = nn.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=options.steps)


@jit
def step() -> Tensor:
    starts = Tensor.uniform(BATCH, 1, high=500.0)
    values = wave(starts + Tensor.arange(LENGTH + 1)).unsqueeze(-1)
    optimiser.zero_grad()
    error = model(values[:, :-1])[0] - values[:, 1:]
    loss = error[:, 20:].square().mean()  # the first it only listens to
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimiser.step()
    return loss.detach()


losses = []
for number in range(options.steps):
    losses.append(step().item())
    schedule.step()
    if number % 100 == 0 or number == options.steps - 1:
        print(f"step {number:4}: loss {losses[-1]:.5f}")


def listen_to_itself(carry: tuple, _: None) -> tuple:
    value, state = model(*carry)
    return (value, state), value.flatten()


truth = wave(600.0 + Tensor.arange(2 * LENGTH))
with no_grad():
    values, state = model(truth[:LENGTH].reshape(1, -1, 1))
    _, dreamt = scan(listen_to_itself, (values[:, -1:], state), length=LENGTH - 1)
dreamt = Tensor.cat([values[0, -1], dreamt.flatten()])
print(f"far from the truth by {(dreamt - truth[LENGTH:]).abs().mean().item():.3f} on average")

figure, axes = plt.subplots(figsize=(9, 3), layout="constrained")
axes.plot(truth.numpy(), color="silver", linewidth=4, label="the wave")
axes.plot(range(LENGTH, 2 * LENGTH), dreamt.numpy(), label="as the network goes on with it")
axes.axvline(LENGTH - 0.5, color="black", linewidth=0.5)
axes.legend(loc="upper left")
figure.savefig(options.out)
