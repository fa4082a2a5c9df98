"""A transformer that writes, character by character, what torpor's documents sound like.

It learns from the pages in docs/ (or in --text FILE) to say which character comes next; then it is
asked for text. About two minutes; more steps write better.
"""

import argparse
import textwrap
from pathlib import Path

import matplotlib.pyplot as plt

from torpor import Tensor, jit, manual_seed, nn, no_grad
from torpor.nn import functional as F

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=1000)
parser.add_argument("--length", type=int, default=400, help="characters to write")
parser.add_argument("--text", type=Path, nargs="*")
parser.add_argument("--out", default="character_gpt.png")
options = parser.parse_args()

CONTEXT, WIDTH, HEADS, LAYERS, BATCH = 64, 128, 4, 3, 32


class Block(nn.Module):
    """Attention to what came before, then a layer for each position; x[batch, position, width]."""

    def __init__(self) -> None:
        self.norm, self.queries = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH)
        self.joined = nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: Tensor) -> Tensor:
        parts = self.queries(self.norm(x)).unflatten(-1, (3, HEADS, WIDTH // HEADS))
        query, key, value = parts.permute(2, 0, 3, 1, 4)  # each [batch, head, position, width]
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.joined(seen.transpose(1, 2).flatten(2))
        return x + self.mlp(x)


class GPT(nn.Module):
    """Characters [batch, position] to scores of the next one [batch, position, character]."""

    def __init__(self, characters: int) -> None:
        self.token, self.place = nn.Embedding(characters, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, characters)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.norm(self.blocks(self.token(x) + self.place.weight[: x.shape[1]])))


manual_seed(0)
pages = options.text or sorted(Path(__file__).parents[1].glob("docs/*.md"))
text = "".join(page.read_text(encoding="utf-8") for page in pages)
alphabet = sorted(set(text))
data = Tensor([alphabet.index(character) for character in text]).realize()
model = GPT(len(alphabet))
optimiser = nn.optim.AdamW(model.parameters(), lr=2e-3)


@jit
def step() -> Tensor:
    starts = Tensor.randint(BATCH, 1, low=0, high=len(data) - CONTEXT)
    batch = data[starts + Tensor.arange(CONTEXT + 1)]
    optimiser.zero_grad()
    scores = model(batch[:, :-1])
    loss = scores.flatten(0, 1).cross_entropy(batch[:, 1:].flatten())
    loss.backward()
    optimiser.step()
    return loss.detach()


@jit
def next_character(window: Tensor) -> Tensor:
    """Drawn by what the model says of the characters [1, position] before it."""
    with no_grad():
        return (model(window)[0, -1] / 0.8).softmax(-1).multinomial(1)


print(f"{len(text)} characters, {len(alphabet)} different ones")
losses = []
for number in range(options.steps):
    losses.append(step().item())
    if number % 100 == 0 or number == options.steps - 1:
        print(f"step {number:4}: loss {losses[-1]:.3f}")

written = data[:CONTEXT].tolist()  # how the text begins
for _ in range(options.length):
    written.append(next_character(Tensor([written[-CONTEXT:]])).item())
sample = "".join(alphabet[number] for number in written)
print("---", sample, "---", sep="\n")

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.plot(losses)
left.set(xlabel="step", ylabel="nats a character")
rows = [row for line in sample.splitlines() for row in textwrap.wrap(line, 56) or [""]]
right.text(0, 1, "\n".join(rows[:20]), va="top", family="monospace", size=8, parse_math=False)
right.axis("off")
figure.savefig(options.out)
