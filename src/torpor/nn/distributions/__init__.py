"""PyTorch's distributions, by its names: `torpor.distributions`.

Draws have the shape (*sample_shape, *batch_shape, *event_shape). A parameter or a value that does
not satisfy its constraint is a `ValueRangeError`; what has no closed form a `NotImplementedError`.

>>> torpor.distributions.Normal(0.0, 1.0).log_prob(0.0).exp().item()  # doctest: +ELLIPSIS
0.3989...
"""

import sys
from typing import TYPE_CHECKING

from torpor.base.missing import names_of
from torpor.nn.distributions import constraints
from torpor.nn.distributions.base import Distribution
from torpor.nn.distributions.base import ExponentialFamily as ExponentialFamily
from torpor.nn.distributions.composite import *  # noqa: F403
from torpor.nn.distributions.divergence import kl_divergence, register_kl
from torpor.nn.distributions.families import *  # noqa: F403
from torpor.nn.distributions.matrices import *  # noqa: F403
from torpor.nn.distributions.relaxed import *  # noqa: F403
from torpor.nn.distributions.scalar_transforms import *  # noqa: F403
from torpor.nn.distributions.scalar_transforms import Transform, identity_transform
from torpor.nn.distributions.vector_transforms import *  # noqa: F403
from torpor.nn.distributions.vector_transforms import biject_to, transform_to
from torpor.nn.distributions.vectors import *  # noqa: F403

transforms = sys.modules[__name__]  # a room of its own in PyTorch, with some of these names

__all__ = [
    "biject_to", "constraints", "identity_transform", "kl_divergence", "register_kl",
    "transform_to",
    *(n for n, kind in globals().items()
      if isinstance(kind, type) and issubclass(kind, Distribution | Transform)),
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = names_of("torpor.distributions", lambda: __all__, __name__)
