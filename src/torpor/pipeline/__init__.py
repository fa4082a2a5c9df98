"""Floor 5: the whole route from a graph to a result, and the caches along it.

`realize` computes, `schedule` only says what would be computed, `lower` compiles for any target.
"""

from torpor.pipeline.calls import know_written as know_written
from torpor.pipeline.compile import program_for as program_for
from torpor.pipeline.pieces import is_restless as is_restless
from torpor.pipeline.report import KernelRun as KernelRun
from torpor.pipeline.report import Measurement as Measurement
from torpor.pipeline.report import measuring as measuring
from torpor.pipeline.route import lower as lower
from torpor.pipeline.route import realize as realize
from torpor.pipeline.route import realize_again as realize_again
from torpor.pipeline.route import realize_along as realize_along
from torpor.pipeline.route import realize_later as realize_later
from torpor.pipeline.route import schedule as schedule
from torpor.pipeline.route import take_along as take_along
