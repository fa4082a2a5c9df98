"""Optimisers, and schedules of their learning rates.

What is kept of a parameter has its shape unless said otherwise. A hyperparameter out of its range
is a `ValueRangeError`, a parameter that is no leaf, or a step without any gradient, a
`GradientError`.
"""

from typing import TYPE_CHECKING

from torpor.base.missing import names_of
from torpor.nn.optim import lr_scheduler, swa_utils
from torpor.nn.optim.descent import ASGD, SGD, Adadelta, Adagrad, Muon, RMSprop, Rprop
from torpor.nn.optim.lbfgs import LBFGS
from torpor.nn.optim.moments import LAMB, Adafactor, Adam, Adamax, AdamW, NAdam, RAdam
from torpor.nn.optim.optimizer import Optimizer

__all__ = [
    "ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "LAMB", "LBFGS", "Muon",
    "NAdam", "Optimizer", "RAdam", "RMSprop", "Rprop", "SGD", "lr_scheduler", "swa_utils",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = names_of("torpor.nn.optim", lambda: __all__)
