"""Searches whose times come from formulas."""

from torpor import Context, Tensor
from torpor.pipeline import tuner

DEVICE = "CPU"


def product(size=32):
    a, b = (Tensor.empty(size, size) for _ in range(2))
    (item,) = (a @ b).schedule()
    return item.ast


def task(**context):
    with Context(**context):
        made = tuner.task_for(product(), DEVICE)
    assert made is not None
    return made


class Clock:
    """Seconds that pass when something is timed."""

    now = 0.0

    def __call__(self):
        return self.now


class Fake:
    """A `TimingWorker` by which the heuristics' choice takes a millisecond, others `times` that."""

    def __init__(self, clock, times, duel=None, each=0.25):
        self.clock, self.times, self.each = clock, times, each
        self.ratio = duel
        self.asked = []
        self.own = None

    def ask(self, patience, name, *arguments):
        assert patience > 0
        self.asked.append((name, *arguments))
        self.clock.now += self.each
        if name == "open":
            self.own = None
            return None
        if name == "compare":
            first, second = arguments[:2]
            assert first == self.own
            mine = 1e-3 * self.times(second)
            ratios = self.ratio or [1e-3 / mine] * 9
            return [(mine * ratio, mine) for ratio in ratios]
        opts = arguments[0]
        if self.own is None:
            self.own = opts
        return 1e-3 if opts == self.own else 1e-3 * self.times(opts)

    def measured(self):
        return [request[1] for request in self.asked if request[0] == "measure"]


def settled(times, duel=None, made=None, each=0.25):
    clock = Clock()
    worker = Fake(clock, times, duel, each)
    entry = tuner.settle(made or task(), worker, clock)
    return entry, worker, clock


def shorter(opts):
    """The fewer opts, the faster."""
    return 0.5 + 0.01 * len(opts)
