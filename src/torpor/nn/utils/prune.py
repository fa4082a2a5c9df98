"""`torch.nn.utils.prune` by its names: tensors of modules whose least elements are held at zero.

What is pruned becomes `NAME_orig`, which is trained, and `NAME_mask`; `NAME` is their product
whenever it is read. An amount that is none is a `ValueRangeError`, scores of another shape are a
`ShapeError`.

>>> layer = torpor.nn.Linear(2, 1)
>>> layer = torpor.nn.utils.prune.l1_unstructured(layer, "weight", amount=1)
>>> sorted(layer.state_dict()), layer.weight_mask.sum().item()
(['bias', 'weight_mask', 'weight_orig'], 1.0)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from torpor.base.attributes import attribute, attributes
from torpor.base.errors import ShapeError, ValueRangeError
from torpor.nn.trained import parameter
from torpor.nn.utils.parametrize import Way, compute, settle, taken, ways_of
from torpor.tensor import Tensor, as_tensor, no_grad


class _Pruned(Way):
    def read(self, module: Any) -> Any:
        return attribute(module, f"{self.name}_orig") * attribute(module, f"{self.name}_mask")


def _count(amount: float, total: int) -> int:
    """How many of all are pruned: a whole number, or a share of them."""
    if isinstance(amount, bool) or amount < 0 or (isinstance(amount, float) and amount > 1):
        raise ValueRangeError(f"amount is a count, or a share from 0 to 1, not {amount}")
    count = round(amount * total) if isinstance(amount, float) else amount
    if count > total:
        raise ValueRangeError(f"amount is {amount}, of {total} that are left")
    return count


def _without_least(scores: Tensor, amount: float) -> Tensor:
    """1 for each score along axis 0, but 0 for the least."""
    kept = np.ones(len(scores), np.float32)
    kept[np.argsort(scores.numpy(), kind="stable")[: _count(amount, len(scores))]] = 0
    return as_tensor(kept, dtype=scores.dtype, device=scores.device)


class BasePruningMethod:
    """Base of ways to prune: a subclass has `compute_mask(t, default_mask)`, a mask of the shape of
    t, and says in `PRUNING_TYPE` whether that is about single elements ("unstructured"), channels
    along `self.dim` ("structured") or all that there are ("global"): when a tensor is pruned
    again, it is asked about those only that are left.
    """

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """1 where t is kept, 0 where not."""
        raise NotImplementedError(f"{type(self).__name__} does not say what is kept")

    def apply_mask(self, module: Any) -> Tensor:
        """The tensor without what is pruned."""
        return _Pruned(attribute(self, "_tensor_name")).read(module)

    def prune(self, t: Tensor, default_mask: Any = None, importance_scores: Any = None) -> Tensor:
        """t without what is pruned, by `importance_scores` of its shape, by default t itself."""
        scores = t if importance_scores is None else importance_scores
        return t * self._mask(scores, t.ones_like() if default_mask is None else default_mask)

    def _mask(self, scores: Tensor, mask: Tensor) -> Tensor:
        """The mask, and what this prunes of the rest."""
        with no_grad():
            scores, kept = scores.detach(), mask.numpy() != 0
            if self.PRUNING_TYPE == "unstructured":
                chosen = as_tensor(np.flatnonzero(kept))
                left, dim = scores.reshape(-1)[chosen], 0
                new = self.compute_mask(left, left.ones_like()).numpy()
                kept.reshape(-1)[np.flatnonzero(kept)] = new != 0
            elif self.PRUNING_TYPE == "structured":
                dim = attribute(self, "dim")
                others = tuple(n for n in range(scores.ndim) if n != dim % scores.ndim)
                there = np.flatnonzero(kept.any(others))
                left = scores.index_select(dim, as_tensor(there))
                new = self.compute_mask(left, left.ones_like()).numpy() != 0
                moved = np.moveaxis(kept, dim, 0)
                moved[there] &= np.moveaxis(new, dim, 0)
            else:
                kept = self.compute_mask(scores, mask).numpy() != 0
            return as_tensor(kept.astype(np.float32), dtype=mask.dtype, device=mask.device)

    @classmethod
    def apply(
        cls, module: Any, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune the module's tensor of this name; `args` and `kwargs` are the constructor's."""
        method: Any = cls(*args, **kwargs)
        method._tensor_name = name
        own = attributes(module)
        is_new = _Pruned(name) not in ways_of(module)[1]
        tensor = taken(module, name) if is_new else own[f"{name}_orig"]
        mask = tensor.detach().ones_like() if is_new else own[f"{name}_mask"]
        scores = tensor.detach() * mask if importance_scores is None else importance_scores
        try:
            if tuple(scores.shape) != tuple(tensor.shape):
                raise ShapeError(f"scores of shape {scores.shape} for a tensor of {tensor.shape}")
            mask = method._mask(scores, mask)
        except Exception:
            own |= {name: tensor} if is_new else {}
            raise
        own.update({f"{name}_orig": tensor, f"{name}_mask": mask})
        if is_new:
            compute(module, _Pruned(name))
        return method

    def remove(self, module: Any) -> None:
        """Let the tensor stay as it is pruned, and be trained itself."""
        remove(module, attribute(self, "_tensor_name"))


class Identity(BasePruningMethod):
    """Prunes nothing: the tensor only becomes one with a mask."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask


class L1Unstructured(BasePruningMethod):
    """Prunes the elements of least absolute value: so many, or such a share."""

    def __init__(self, amount: float):
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return _without_least(t.abs().reshape(-1), self.amount).reshape(t.shape) * default_mask


class RandomUnstructured(L1Unstructured):
    """Prunes any elements: so many, or such a share."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return super().compute_mask(t.rand_like(), default_mask)


class LnStructured(BasePruningMethod):
    """Prunes the channels along `dim` whose norm of order n is least."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, n: Any, dim: int = -1):
        self.amount, self.n, self.dim = amount, n, dim

    def _scores(self, channels: Tensor) -> Tensor:
        """A score for each of channels[channel, element]."""
        return channels.norm(self.n, 1)

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if t.ndim < 2:
            raise ShapeError(f"channels are pruned of tensors of two axes or more, not {t.ndim}")
        scores = self._scores(t.movedim(self.dim, 0).flatten(1))
        kept = _without_least(scores, self.amount)
        shape = [1] * t.ndim
        shape[self.dim] = -1
        return kept.reshape(*shape) * default_mask


class RandomStructured(LnStructured):
    """Prunes any channels along `dim`."""

    def __init__(self, amount: float, dim: int = -1):
        super().__init__(amount, None, dim)

    def _scores(self, channels: Tensor) -> Tensor:
        return Tensor.rand(channels.shape[0])


class CustomFromMask(BasePruningMethod):
    """Prunes where a mask is 0."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Any):
        self.mask = as_tensor(mask)

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask * self.mask.cast(default_mask.dtype)


def identity(module: Any, name: str) -> Any:
    """Give the tensor a mask of ones; gives the module."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Any, name: str, amount: float) -> Any:
    """Prune any elements, a share of those left or so many; gives the module."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Any, name: str, amount: float, importance_scores: Any = None) -> Any:
    """Prune the least elements, a share of those left or so many; gives the module."""
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: Any, name: str, amount: float, dim: int) -> Any:
    """Prune any channels along `dim`, a share of those left or so many; gives the module."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Any, name: str, amount: float, n: Any, dim: int, importance_scores: Any = None
) -> Any:
    """Prune the channels along `dim` of least norm of order n; gives the module."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Any, name: str, mask: Any) -> Any:
    """Prune where the mask is 0; gives the module."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Any, str]], pruning_method: type[BasePruningMethod],
    importance_scores: Any = None, **kwargs: Any,
) -> None:  # fmt: skip
    """Prune elements of several tensors, (module, name) each, as if these were one."""
    pairs, given = list(parameters), importance_scores or {}
    if pruning_method.PRUNING_TYPE != "unstructured":
        raise ValueRangeError(f"{pruning_method.__name__} does not prune single elements")
    tensors = [attribute(module, name).detach() for module, name in pairs]
    masks = [attribute(module, f"{name}_mask", one.ones_like())
             for (module, name), one in zip(pairs, tensors, strict=True)]  # fmt: skip
    scores = [given.get(pair, one) for pair, one in zip(pairs, tensors, strict=True)]
    joined = (Tensor.cat([one.reshape(-1) for one in part]) for part in (scores, masks))
    whole = pruning_method(**kwargs)._mask(*joined)
    parts = whole.split([one.numel() for one in tensors])
    for (module, name), one, part in zip(pairs, tensors, parts, strict=True):
        custom_from_mask(module, name, part.reshape(one.shape))


def remove(module: Any, name: str) -> Any:
    """Let the tensor stay as it is pruned, and be trained itself; gives the module."""
    if _Pruned(name) not in ways_of(module)[1]:
        raise ValueRangeError(f"{name} of {type(module).__name__} is not pruned")
    value = attribute(module, name).detach()
    for part in ("orig", "mask"):
        attributes(module).pop(f"{name}_{part}")
    settle(module, name, parameter(value))
    return module


def is_pruned(module: Any) -> bool:
    """Whether a tensor of it, or of a module inside, is pruned."""
    return any(isinstance(way, _Pruned) for one in module.modules() for way in ways_of(one)[1])


__all__: Sequence[str] = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured",
    "RandomStructured", "RandomUnstructured", "custom_from_mask", "global_unstructured", "identity",
    "is_pruned", "l1_unstructured", "ln_structured", "random_structured", "random_unstructured",
    "remove",
]  # fmt: skip
