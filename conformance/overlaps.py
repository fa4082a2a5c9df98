"""Whether tensors of PyTorch's share memory."""

from __future__ import annotations

from typing import Any

import numpy as np


def overlaps(one: Any, other: Any) -> bool:
    """Whether two tensors share memory, but not all of it place by place."""

    def layout(tensor: Any) -> Any:
        return tensor.data_ptr(), tensor.shape, tensor.stride()

    if layout(one) == layout(other):
        return False
    return bool(np.shares_memory(*(memory(x) for x in (one, other))))


def memory(tensor: Any) -> np.ndarray:
    """What is in a tensor's places, as numbers of NumPy's in the same memory."""
    import torch

    given = tensor.detach()
    found: np.ndarray = (
        given.view(torch.int16) if given.dtype == torch.bfloat16 else given
    ).numpy()
    return found
