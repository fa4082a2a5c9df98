"""`Tensor` in annotations of what it is made of: the families of methods, which are there first."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torpor.tensor.tensor import Tensor as Tensor
else:
    Tensor = Any
