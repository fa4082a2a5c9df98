"""Floor 5: the whole route from a graph to a result, and the caches along it.

`realize` computes, `schedule` only says what would be computed, `lower` compiles for any target.
"""

from torpor.pipeline.again import learn, recall
from torpor.pipeline.compile import program_for
from torpor.pipeline.report import KernelRun, Measurement, measuring
from torpor.pipeline.route import lower, realize, realize_again, realize_along, schedule, take_along

__all__ = [
    "KernelRun",
    "Measurement",
    "learn",
    "lower",
    "measuring",
    "program_for",
    "realize",
    "realize_again",
    "realize_along",
    "recall",
    "schedule",
    "take_along",
]
