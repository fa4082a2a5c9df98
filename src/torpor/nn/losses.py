"""Losses as functions of tensors; each is also a method of `Tensor`."""

from __future__ import annotations

from torpor.tensor import Tensor


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean of -log softmax(logits[batch, class]) at the classes targets[batch] (integers)."""
    return logits.cross_entropy(targets)


def mse_loss(x: Tensor, target: Tensor) -> Tensor:
    """Mean of (x - target) squared."""
    return x.mse_loss(target)


def l1_loss(x: Tensor, target: Tensor) -> Tensor:
    """Mean of |x - target|."""
    return x.l1_loss(target)
