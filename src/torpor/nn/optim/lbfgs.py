"""A quasi-Newton method with a memory of few steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from torpor.base.errors import GradientError, ShapeError, ValueRangeError
from torpor.nn.optim.hooked import with_hooks
from torpor.nn.optim.optimizer import Optimizer
from torpor.tensor import Tensor, enable_grad, no_grad

Vector = NDArray[np.float64]
LONGEST: Final = 25  # steps of a line search behind the first
NARROWEST: Final = 1e-9  # what a line search still divides, as parameters change


class _Point(NamedTuple):
    """A place on a line: how far along, the loss there, its gradient and its slope."""

    at: float
    loss: float
    gradient: Vector
    slope: float


class LBFGS(Optimizer):
    """Nocedal, 1980: directions from the last `history_size` changes of parameters and gradients.
    `step` needs a closure, which is called several times; `line_search_fn="strong_wolfe"` looks
    for a step along the direction, by Nocedal and Wright, Numerical Optimization, 2006, algorithms
    3.5 and 3.6, with the bounds of Schmidt's minFunc, 2005. The few numbers that decide are
    computed on the host.
    """

    options = {
        "lr": 1.0, "max_iter": 20, "max_eval": None, "tolerance_grad": 1e-7,
        "tolerance_change": 1e-9, "history_size": 100, "line_search_fn": None,
    }  # fmt: skip

    def __init__(self, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        group = self.param_groups[0]
        if group["max_eval"] is None:
            group["max_eval"] = group["max_iter"] * 5 // 4
        self.history: list[tuple[Vector, Vector]] = []  # changes of parameters and of gradients
        self._direction: Vector | None = None
        self._before: Vector | None = None
        self._length = self._loss = 0.0
        self._iterations = self._calls = 0

    def check(self, options: Mapping[str, Any]) -> None:
        super().check(options)
        search = options["line_search_fn"]
        if search not in (None, "strong_wolfe"):
            raise ValueRangeError(f"line_search_fn is None or strong_wolfe, not {search!r}")
        if self.param_groups or options["maximize"]:
            raise ValueRangeError("LBFGS has one group of parameters, and makes the loss less")

    @with_hooks
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Up to `max_iter` iterations; gives the loss before them, as the closure gave it."""
        if closure is None:
            raise GradientError("LBFGS evaluates the loss more than once: step needs a closure")
        group, start = self.param_groups[0], self._values()
        given, gradient = self._evaluate(closure)
        loss, calls = float(given), 1
        for left in reversed(range(group["max_iter"])):
            if np.abs(gradient).max(initial=0) <= group["tolerance_grad"]:
                break
            direction = self._next_direction(gradient)
            slope = float(gradient @ direction)
            if slope > -group["tolerance_change"]:
                break
            rate = group["lr"]
            if self._iterations == 1:
                rate *= min(1.0, 1.0 / np.abs(gradient).sum())
            line = _Line(self, closure, start, direction, _Point(0.0, loss, gradient, slope))
            found = _Point(rate, loss, gradient, slope)  # after the last step nothing is asked
            if group["line_search_fn"]:
                found = line.search(rate, min(LONGEST, group["max_eval"] - calls))
            elif left:
                found = line.at(rate)
            start, calls = start + direction * found.at, calls + line.calls
            self._write(start)
            moved, change = np.abs(direction * found.at).max(), abs(found.loss - loss)
            loss, gradient, self._length = found.loss, found.gradient, found.at
            least = group["tolerance_change"]
            if calls >= group["max_eval"] or moved <= least or change < least:
                break
        self._loss, self._calls = loss, self._calls + calls
        return given

    def kept_parameters(self) -> list[Tensor]:
        """The first parameter, beside which all is kept, once there is something."""
        return [] if self._before is None or self._direction is None else self.params[:1]

    def kept_of(self, parameter: Tensor) -> Any:
        """What is kept, by PyTorch's names."""
        if self._before is None or self._direction is None or parameter is not self.params[0]:
            raise KeyError(parameter)
        curved = [float(changed @ moved) for moved, changed in self.history]
        last = self.history[-1][1] if self.history else None
        return MappingProxyType({
            "func_evals": self._calls, "n_iter": self._iterations,
            "d": Tensor(self._direction), "t": self._length,
            "old_dirs": [Tensor(changed) for _, changed in self.history],
            "old_stps": [Tensor(moved) for moved, _ in self.history],
            "ro": [Tensor(1 / one) for one in curved],
            "H_diag": Tensor(1.0 if last is None else curved[-1] / float(last @ last)),
            "prev_flat_grad": Tensor(self._before), "prev_loss": self._loss,
        })  # fmt: skip

    def keep(self, parameter: Tensor, values: Mapping[str, Any]) -> None:
        """Have this kept; a `KeyError` for another parameter than the first."""
        if parameter is not self.params[0]:
            raise KeyError(parameter)
        self._take_over(self._read(values), values)

    def forget(self, parameter: Tensor) -> None:
        """Begin anew; a `KeyError` if nothing is kept of this parameter."""
        self.kept_of(parameter)
        self._take_over({}, {})

    @with_hooks
    def state_dict(self) -> dict[str, Any]:
        """What is kept, under 0, and the group, as PyTorch lays them out."""
        kept = [dict(one) for one in self.state.values()]
        return {**super().state_dict(), "state": dict(enumerate(kept))}

    @with_hooks
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave, here or in PyTorch, for as many numbers."""
        kept = dict(state_dict["state"].get(0, {})) if "state" in state_dict else {}
        read = self._read(kept)
        super().load_state_dict(state_dict)
        self._take_over(read, kept)

    def _read(self, kept: Mapping[str, Any]) -> dict[str, list[Vector]]:
        """The vectors of a state, all as long as the parameters."""
        read = {
            name: [_vector(one) for one in kept.get(name) or ()]
            for name in ("old_stps", "old_dirs")
        }
        read["last"] = [_vector(kept[name]) for name in ("d", "prev_flat_grad") if name in kept]
        size = sum(one.numel() for one in self.params)
        if wrong := [one.size for many in read.values() for one in many if one.size != size]:
            raise ShapeError(f"what is kept is of {wrong[0]} numbers, the parameters have {size}")
        return read

    def _take_over(self, read: Mapping[str, list[Vector]], kept: Mapping[str, Any]) -> None:
        pairs = zip(read.get("old_stps", ()), read.get("old_dirs", ()), strict=True)
        self.history = list(pairs)
        self._direction, self._before = read.get("last") or (None, None)
        self._length, self._loss = float(kept.get("t", 0.0)), float(kept.get("prev_loss", 0.0))
        self._iterations, self._calls = kept.get("n_iter", 0), kept.get("func_evals", 0)

    def _next_direction(self, gradient: Vector) -> Vector:
        """By the two loops of Nocedal and Wright, algorithm 7.4."""
        self._iterations += 1
        if self._before is not None and self._direction is not None:
            moved, changed = self._direction * self._length, gradient - self._before
            if changed @ moved > 1e-10:  # the curvature is positive
                self.history = [*self.history, (moved, changed)]
                self.history = self.history[-self.param_groups[0]["history_size"] :]
        direction, shares = -gradient, list[float]()
        for moved, changed in reversed(self.history):
            shares.append(float(moved @ direction) / float(changed @ moved))
            direction = direction - shares[-1] * changed
        if self.history:
            moved, changed = self.history[-1]
            direction = direction * (float(changed @ moved) / float(changed @ changed))
        for (moved, changed), share in zip(self.history, reversed(shares), strict=True):
            direction = direction + (share - changed @ direction / (changed @ moved)) * moved
        self._direction, self._before = direction, gradient
        return direction

    def _values(self) -> Vector:
        flat = [one.detach().numpy().astype(np.float64).ravel() for one in self.params]
        return np.concatenate(flat)

    def _write(self, values: Vector) -> None:
        place = 0
        with no_grad():
            for parameter in self.params:
                part = Tensor(values[place : place + parameter.numel()]).reshape(parameter.shape)
                parameter.assign(part.cast(parameter.dtype).to(parameter.device))
                place += parameter.numel()

    def _evaluate(self, closure: Callable[[], Any]) -> tuple[Any, Vector]:
        with enable_grad():
            loss = closure()
        parts = [np.zeros(one.numel()) if one.grad is None else one.grad.numpy()
                 for one in self.params]  # fmt: skip
        return loss, np.concatenate([part.astype(np.float64).ravel() for part in parts])


class _Line:
    """The loss along a direction."""

    def __init__(
        self, rule: LBFGS, closure: Callable[[], Any], start: Vector, way: Vector, zero: _Point
    ):
        self.rule, self.closure, self.start, self.way, self.zero = rule, closure, start, way, zero
        self.calls = 0

    def at(self, place: float) -> _Point:
        self.rule._write(self.start + self.way * place)
        self.calls += 1
        loss, gradient = self.rule._evaluate(self.closure)
        return _Point(place, float(loss), gradient, float(gradient @ self.way))

    def falls(self, point: _Point) -> bool:
        """Whether the loss is lower by a fair part of what the slope at 0 promises."""
        return point.loss <= self.zero.loss + 1e-4 * point.at * self.zero.slope

    def is_flat(self, point: _Point) -> bool:
        return abs(point.slope) <= -0.9 * self.zero.slope

    def search(self, place: float, most: int) -> _Point:
        """A step that meets both of Wolfe's conditions, or the best that was found."""
        before, point, number = self.zero, self.at(place), 0
        while number < most:
            if not self.falls(point) or (number > 1 and point.loss >= before.loss):
                break
            if self.is_flat(point):
                return point
            if point.slope >= 0:
                break
            least, widest = point.at + 0.01 * (point.at - before.at), point.at * 10
            before, point = point, self.at(_lowest(before, point, least, widest))
            number += 1
        else:
            before = self.zero
        return self._between(before, point, most - number)

    def _between(self, one: _Point, other: _Point, most: int) -> _Point:
        """Narrow an interval that holds such a step."""
        low, high = sorted((one, other), key=lambda point: point.loss)
        slow = False  # whether the last step went near an end
        for _ in range(most):
            first, last = sorted((low.at, high.at))
            if (last - first) * np.abs(self.way).max() < NARROWEST:
                break
            place = _lowest(low, high, first, last)
            margin, near = 0.1 * (last - first), min(place - first, last - place)
            if near < margin and (slow or near <= 0):
                place = last - margin if last - place < place - first else first + margin
                slow = False
            else:
                slow = near < margin
            point = self.at(place)
            if not self.falls(point) or point.loss >= low.loss:
                high = point
                low, high = sorted((low, high), key=lambda point: point.loss)
                continue
            if self.is_flat(point):
                return point
            if point.slope * (high.at - low.at) >= 0:
                high = low
            low = point
        return low


def _vector(kept: Any) -> Vector:
    """A tensor of either library as numbers of the host."""
    return np.asarray(kept.detach().numpy(), np.float64).reshape(-1)


def _lowest(one: _Point, other: _Point, least: float, most: float) -> float:
    """Where the cubic through two losses and slopes is lowest (Nocedal and Wright, equation 3.59)
    within bounds, or their middle.
    """
    if one.at > other.at:
        one, other = other, one
    first = one.slope + other.slope - 3 * (one.loss - other.loss) / (one.at - other.at)
    square = first * first - one.slope * other.slope
    if not square >= 0:
        return (least + most) / 2
    root = float(square) ** 0.5
    share = (other.slope + root - first) / (other.slope - one.slope + 2 * root)
    return min(max(float(other.at - (other.at - one.at) * share), least), most)
