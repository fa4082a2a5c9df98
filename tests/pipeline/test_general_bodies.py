"""What is found by halves (medians, ranks, quantiles), in blocks, or of parts is compiled for three
lengths at most: sizes in the bodies of loops are numbers as all others, and may be sums of two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import torpor
from torpor import Tensor

LENGTHS = (5000, 7001, 6000, 5501, 7907, 6403)  # of blocks of one size
DRAWS = np.random.default_rng(7)


def thirds(x: Any) -> list[int]:
    return [x.shape[1] // 3, x.shape[1] - x.shape[1] // 3]


FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "median": (lambda x: x[0].median(), lambda x: np.sort(x[0])[(x.shape[1] - 1) // 2]),
    "median_of_rows": (
        lambda x: x.median(1)[0],
        lambda x: np.sort(x, 1)[:, (x.shape[1] - 1) // 2],
    ),
    "kthvalue": (lambda x: x.kthvalue(7, 1)[0], lambda x: np.sort(x, 1)[:, 6]),
    "quantile": (lambda x: torpor.quantile(x[1], 0.3), lambda x: np.quantile(x[1], 0.3)),
    "topk": (lambda x: x[0].topk(5)[0], lambda x: -np.sort(-x[0])[:5]),
    "topk_of_rows": (lambda x: x.topk(5, 1)[0], lambda x: -np.sort(-x, 1)[:, :5]),
    "chunk": (
        lambda x: torpor.stack([part.square().sum() for part in x[0].chunk(2)]),
        lambda x: [np.square(part).sum() for part in np.array_split(x[0], 2)],
    ),
    "split": (
        lambda x: torpor.cat([part.flip(1) for part in x.split(thirds(x), 1)], 1),
        lambda x: np.concatenate([x[:, : thirds(x)[0]][:, ::-1], x[:, thirds(x)[0] :][:, ::-1]], 1),
    ),
    "nanmedian": (lambda x: x[2].nanmedian(), lambda x: np.sort(x[2])[(x.shape[1] - 1) // 2]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_ever_other_lengths_are_compiled_for_few(name: str, compiled: list[str]) -> None:
    function, wanted = FUNCTIONS[name]
    for number, length in enumerate(LENGTHS):
        if number == 3:
            compiled.clear()
        given = DRAWS.normal(size=(3, length))
        np.testing.assert_allclose(function(Tensor(given)).numpy(), wanted(given), rtol=1e-12)
    assert compiled == []


def test_a_step_over_all_of_what_has_another_length(compiled: list[str]) -> None:
    """Two loops over what is the same at each step, of two lengths that are equal once."""
    lengths = ((30, 40), (35, 35), (21, 60), (44, 23), (33, 31), (50, 50))
    for number, (n, m) in enumerate(lengths):
        if number == 3:
            compiled.clear()
        x, y = DRAWS.normal(size=n), DRAWS.normal(size=m)
        a, b = Tensor(x), Tensor(y)
        rows = Tensor(np.arange(5.0))
        one, _ = torpor.scan(lambda c, r, a=a: ((a * r - c).square().sum(), None), rows[0], rows)
        two, _ = torpor.scan(lambda c, r, b=b: ((b + r).tanh().sum() + c, None), rows[0], rows)
        found = (one + two).item()
        c = d = 0.0
        for r in np.arange(5.0):
            c, d = np.square(x * r - c).sum(), np.tanh(y + r).sum() + d
        assert found == pytest.approx(c + d, rel=1e-12)
    assert compiled == []


def test_carries_of_another_length_are_right() -> None:
    """They have places of known size: the graph is another one for each length."""
    for length in (6, 9, 7, 6, 12):
        start = DRAWS.normal(size=length)
        rows = Tensor(np.arange(4.0))
        end, _ = torpor.scan(lambda c, r: (c * 2 + r, None), Tensor(start), rows)
        wanted = start
        for r in range(4):
            wanted = wanted * 2 + r
        np.testing.assert_allclose(end.numpy(), wanted, rtol=1e-12)
