"""Products in every form of their operands, their opts, and how close results must be."""

import numpy as np

import torpor
from torpor import Tensor

FORMS = ["plain", "left transposed", "right transposed"]


def operands(rows, inner, columns, form):
    """(tensors, float64 arrays) of a product; a transposed one lies in memory column by column."""
    random = np.random.default_rng(1)
    a = random.standard_normal((rows, inner), np.float32)
    b = random.standard_normal((inner, columns), np.float32)
    x, y = Tensor(a), Tensor(b)
    if form == "left transposed":
        x = Tensor(np.ascontiguousarray(a.T)).T
    if form == "right transposed":
        y = Tensor(np.ascontiguousarray(b.T)).T
    return (x, y), (a.astype(np.float64), b.astype(np.float64))


def agree(result, expected, terms=0):
    """Of float32. The errors of sums that are added one after the other, as opts may have it, grow
    with the root of the number of their terms (Higham, Accuracy and Stability, 2002, section 4.5).
    """
    error = np.linalg.norm(result.astype(np.float64) - expected)
    assert error <= max(1e-6, 2**-24 * np.sqrt(terms)) * np.linalg.norm(expected)


def opts_of(tensor):
    """Kinds of the opts of the one kernel with a reduction."""
    (program,) = [p for p in torpor.lower(tensor, target="cpu") if p.name.startswith("r")]
    return [opt.op for opt in program.opts]
