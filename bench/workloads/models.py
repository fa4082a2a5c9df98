"""Models written once for PyTorch and torpor, whose layers have the same names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def multilayer(nn: Any) -> Any:
    """784 - 512 - 256 - 10."""
    return nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10)
    )


def digits(nn: Any) -> Any:
    """The network of `torpor demo`."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(512, 10),
    )  # fmt: skip


def residual(nn: Any, stages: Iterable[tuple[int, int, int]]) -> list[Any]:
    """Residual blocks (He et al. 2015) of (channels in, out, stride)."""

    class Block(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self, inputs: int, outputs: int, stride: int):
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False),
                nn.BatchNorm2d(outputs),
                nn.ReLU(),
                nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
                nn.BatchNorm2d(outputs),
            )
            self.short = None
            if stride != 1 or inputs != outputs:
                self.short = nn.Sequential(
                    nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False),
                    nn.BatchNorm2d(outputs),
                )

        def forward(self, x: Any) -> Any:
            return (self.body(x) + (x if self.short is None else self.short(x))).relu()

    return [Block(*stage) for stage in stages]


def mean(nn: Any) -> Any:
    """The mean of each channel of [batch, channel, row, column]."""

    class Mean(nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, x: Any) -> Any:
            return x.mean((2, 3))

    return Mean()


def resnet18(nn: Any) -> Any:
    """He et al. 2015, table 1, with torchvision's placing of strides; 1000 classes."""
    stages = ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2))
    blocks = residual(nn, (two for one in stages for two in (one, (one[1], one[1], 1))))
    return nn.Sequential(
        nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
        nn.MaxPool2d(3, stride=2, padding=1), *blocks, mean(nn), nn.Linear(512, 1000),
    )  # fmt: skip


def attend(library: Any, q: Any, k: Any, v: Any, causal: bool) -> Any:
    """Attention of heads [batch, head, position, width]."""
    if library.__name__ == "torch":
        return library.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    return q.scaled_dot_product_attention(k, v, is_causal=causal)


def transformer(library: Any, layers: int, width: int, heads: int, causal: bool = False) -> Any:
    """A list of blocks with the norm in front (Xiong et al. 2020). A block takes x [batch,
    position, width] and, to generate, keys and values [batch, head, position, width] of before.
    """
    nn = library.nn

    class Block(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
            self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any, keys: Any = None, values: Any = None) -> Any:
            batch, length, _ = x.shape
            mixed = self.mix(self.before(x)).reshape(batch, length, 3, heads, width // heads)
            q, k, v = (mixed[:, :, n].transpose(1, 2) for n in range(3))
            if keys is not None:
                k, v = library.cat((keys, k), 2), library.cat((values, v), 2)
            seen = attend(library, q, k, v, causal).transpose(1, 2).reshape(batch, length, width)
            x = x + self.out(seen)
            return x + self.down(self.up(self.between(x)).relu())

    return nn.ModuleList([Block() for _ in range(layers)])
