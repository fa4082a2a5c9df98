"""The programs as everybody writes them, for PyTorch and torpor, whose names are the same.

`prepared` gets the model before anything else does: it may fill in weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.programs import LARGE, RECURRENT, SMALL, STAGES, TOKENS, VOCABULARY, Transformer
from bench.workloads import models

Step = Callable[..., Any]


def jitted(lib: Any, function: Step) -> Step:
    """The function as the library compiles it; PyTorch runs it as it is."""
    made: Step = function if lib.__name__ == "torch" else lib.jit(function)
    return made


def trained(lib: Any, prepared: Step, model: Any, optimiser: str, **options: Any) -> Step:
    """A step of training the model on inputs and labels."""
    rules = lib.optim if lib.__name__ == "torch" else lib.nn.optim
    rule = getattr(rules, optimiser)(prepared(model).parameters(), **options)

    def step(x: Any, labels: Any) -> Any:
        rule.zero_grad()
        scores = model(x)
        loss = lib.nn.functional.cross_entropy(
            scores.reshape(-1, scores.shape[-1]), labels.reshape(-1)
        )
        loss.backward()
        rule.step()
        return loss

    return jitted(lib, step)


def mlp(lib: Any, prepared: Step) -> Step:
    nn = lib.nn
    model = nn.Sequential(
        nn.Linear(600, 300), nn.ReLU(), nn.Linear(300, 300), nn.ReLU(), nn.Linear(300, 17)
    )
    return trained(lib, prepared, model, "AdamW", lr=1e-3)


def resnet(lib: Any, prepared: Step) -> Step:
    nn = lib.nn
    stem = (nn.Conv2d(3, STAGES[0][0], 3, padding=1, bias=False), nn.BatchNorm2d(STAGES[0][0]))
    blocks = models.residual(nn, STAGES)
    last = (models.mean(nn), nn.Linear(STAGES[-1][1], 10))
    model = nn.Sequential(*stem, nn.ReLU(), *blocks, *last)
    return trained(lib, prepared, model, "SGD", lr=1e-2, momentum=0.9)


def language(lib: Any, size: Transformer) -> Any:
    """The model that gives logits [batch, position, token] of tokens [batch, position]."""
    nn = lib.nn

    class Language(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(VOCABULARY, size.width)
            self.places = nn.Embedding(size.length, size.width)
            self.blocks = models.transformer(lib, *size[:3], causal=True)
            self.norm, self.last = nn.LayerNorm(size.width), nn.Linear(size.width, VOCABULARY)

        def forward(self, tokens: Any) -> Any:
            x = self.tokens(tokens) + self.places(lib.arange(tokens.shape[1]))
            for block in self.blocks:
                x = block(x)
            return self.last(self.norm(x))

    return Language()


def transformer(lib: Any, prepared: Step) -> Step:
    return trained(lib, prepared, language(lib, SMALL), "AdamW", lr=1e-3)


def large(lib: Any, prepared: Step) -> Step:
    return trained(lib, prepared, language(lib, LARGE), "AdamW", lr=1e-3)


def lstm(lib: Any, prepared: Step) -> Step:
    nn, width = lib.nn, RECURRENT["width"]

    class Reader(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(RECURRENT["inputs"], width, RECURRENT["layers"])
            self.last = nn.Linear(width, 10)

        def forward(self, x: Any) -> Any:
            return self.last(self.lstm(x)[0][-1])

    return trained(lib, prepared, Reader(), "Adam", lr=1e-3)


def growing(lib: Any, prepared: Step) -> Step:
    model = prepared(language(lib, SMALL))

    def following(tokens: Any) -> Any:
        with lib.no_grad():
            return model(tokens)[:, -1].argmax(-1, keepdim=True)

    following = jitted(lib, following)

    def write(tokens: Any) -> Any:
        for _ in range(TOKENS):
            tokens = lib.cat((tokens, following(tokens)), 1)
        return tokens.sum()

    write.jitted = following  # type: ignore[attr-defined]
    return write
