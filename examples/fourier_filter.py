"""Takes the hum out of a recording by a Fourier transform; a second.

What hums is narrow in the spectrum: what is far louder than its neighbourhood goes.
"""

import argparse

import matplotlib.pyplot as plt

import torpor
from torpor import Tensor, manual_seed

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--seconds", type=int, default=2)
parser.add_argument("--out", default="fourier_filter.png")
options = parser.parse_args()
RATE, HUMS = 4000, (50, 150, 250)  # samples and oscillations a second

manual_seed(0)
time = Tensor.arange(RATE * options.seconds) / RATE
tune = (2 * torpor.pi * (80 + 60 * time) * time).sin() * (-((time - 1) ** 2)).exp()
hum = sum(0.5 * (2 * torpor.pi * pitch * time).sin() for pitch in HUMS)
heard = tune + hum + 0.05 * Tensor.randn(len(time))

spectrum = torpor.fft.rfft(heard)
frequency = torpor.fft.rfftfreq(len(time), 1 / RATE)
loudness = spectrum.abs()
around = loudness.pad((20, 20)).unfold(0, 41, 1).median(1).values  # of the 20 on each side
kept = loudness < 10 * around
clean = torpor.fft.irfft(kept.where(spectrum, 0), n=len(time))


def error(signal: Tensor) -> float:
    """How far the signal is from the tune, as a root of mean squares."""
    return (signal - tune).square().mean().sqrt().item()


print(f"taken out: {frequency[~kept].tolist()} Hz")
print(f"error before: {error(heard):.3f}, after: {error(clean):.3f}")

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.5), layout="constrained")
shown = slice(RATE * 4 // 10, RATE * 5 // 10)
left.plot(time[shown].numpy(), heard[shown].numpy(), color="silver", label="heard")
left.plot(time[shown].numpy(), clean[shown].numpy(), label="without the hum")
left.set(xlabel="seconds")
left.legend()
right.semilogy(frequency.numpy(), loudness.numpy(), color="silver")
right.semilogy(frequency.numpy(), torpor.fft.rfft(clean).abs().numpy())
right.set(xlabel="Hz", xlim=(0, 500), ylim=(1, None))
figure.savefig(options.out)
