"""Data sets and their loading. An argument that makes no sense is a `ValueRangeError`; what a
worker raises is raised by the loader, as a `WorkerError`.
"""

from typing import TYPE_CHECKING

from torpor.base.missing import names_of
from torpor.nn.data import datasets, samplers, transforms
from torpor.nn.data.datasets import *  # noqa: F403
from torpor.nn.data.digits import load_digits
from torpor.nn.data.loader import DataLoader, default_collate, default_convert
from torpor.nn.data.samplers import *  # noqa: F403
from torpor.nn.data.workers import WorkerError, get_worker_info

__all__ = [
    "DataLoader", "WorkerError", "default_collate", "default_convert", "get_worker_info",
    "load_digits", "transforms", *datasets.__all__, *samplers.__all__,
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = names_of("torpor.nn.data", lambda: __all__)
