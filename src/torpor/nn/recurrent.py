"""Recurrent layers, with PyTorch's names, constructor arguments, distributions and state names."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Final

from torpor.base.attributes import attribute
from torpor.base.errors import ShapeError, ValueRangeError
from torpor.nn import init
from torpor.nn.module import Layer
from torpor.nn.utils.rnn import PackedSequence, pad_packed_sequence, repacked
from torpor.tensor import Tensor
from torpor.tensor.looping import scan
from torpor.tensor.repeated import repeated
from torpor.tensor.spelling import within

State = tuple[Tensor, ...]


class RNNBase(Layer):
    """Layers over layers of steps along a sequence, forwards and, if `bidirectional`, backwards.

    x[length, batch, input_size], with `batch_first` x[batch, length, input_size], or without batch
    x[length, input_size], gives the last layer's h[length, batch, directions * hidden_size] in the
    same order, and the last states[layers * directions, batch, hidden_size]. In training `dropout`
    drops between layers. x may be packed (`nn.utils.rnn`). Weights begin uniform in
    ±1/sqrt(hidden_size).
    """

    gates: ClassVar[int]  # what a step computes of its input and of the hidden state
    kept: ClassVar[int] = 1  # tensors that a step hands to the next, the hidden state first
    kind: ClassVar[str]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
    ):
        if min(input_size, hidden_size, num_layers) < 1:
            raise ShapeError(f"sizes are positive, not {(input_size, hidden_size, num_layers)}")
        if proj_size and (self.kept == 1 or not 0 <= proj_size < hidden_size):
            what = "proj_size is for LSTM, and less than hidden_size"
            raise ValueRangeError(f"{what}; {type(self).__name__} got {proj_size}")
        within("dropout's probability", dropout, 0, 1)
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, dropout
        self.bidirectional, self.proj_size = bidirectional, proj_size
        shown = proj_size or hidden_size
        rows = self.gates * hidden_size
        for number, suffix in enumerate(self._suffixes()):
            first = number < len(self._directions())
            inputs = input_size if first else shown * len(self._directions())
            shapes: dict[str, tuple[int, ...]] = {
                "weight_ih": (rows, inputs), "weight_hh": (rows, shown)
            }  # fmt: skip
            shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)} if bias else {}
            shapes |= {"weight_hr": (proj_size, hidden_size)} if proj_size else {}
            for name, shape in shapes.items():
                setattr(self, f"{name}{suffix}", init.default_weight(shape, hidden_size))

    def _directions(self) -> tuple[str, ...]:
        return ("", "_reverse") if self.bidirectional else ("",)

    def _suffixes(self) -> list[str]:
        """What the names of the weights end in: one layer after the other, each way."""
        layers = range(self.num_layers)
        return [f"_l{layer}{way}" for layer in layers for way in self._directions()]

    def forward(self, x: Any, state: Any = None) -> tuple[Any, Any]:
        """(h of every step, last state). The state begins as zeros unless it is given. Of a
        `PackedSequence` h is one, too, and each sequence's last state that of its own last step.
        """
        if isinstance(x, PackedSequence):
            padded, lengths = pad_packed_sequence(x)
            steps = Tensor.arange(padded.shape[0]).unsqueeze(1)
            inside = (steps < lengths).unsqueeze(-1).to(padded.device)
            output, ends = self._layers(padded, state, inside)
            return repacked(output, x), ends
        if x.ndim not in (2, 3) or x.shape[-1] != self.input_size or 0 in x.shape:
            wanted = f"(length, batch, {self.input_size}) or without batch"
            raise ShapeError(f"{type(self).__name__} expected {wanted}, got {x.shape}")
        turned = self.batch_first and x.ndim == 3
        output, ends = self._layers(x.transpose(0, 1) if turned else x, state)
        return output.transpose(0, 1) if turned else output, ends

    def _layers(self, sequence: Tensor, state: Any, inside: Any = None) -> tuple[Tensor, Any]:
        given = state if state is None or isinstance(state, tuple) else (state,)
        last: list[State] = []
        for layer in range(self.num_layers):
            if layer and self.dropout and self.training:
                sequence = sequence.dropout(self.dropout, training=True)
            made = []
            for way in self._directions():
                start = self._start(sequence, given, len(last))
                outputs, end = self._run(sequence, f"_l{layer}{way}", start, inside)
                made.append(outputs)
                last.append(end)
            sequence = made[0] if len(made) == 1 else Tensor.cat(*made, dim=-1)
        ends = tuple(Tensor.stack(*parts) for parts in zip(*last, strict=True))
        return sequence, ends if self.kept > 1 else ends[0]

    def _start(self, sequence: Tensor, given: Any, number: int) -> State:
        """The state that one layer starts from in one direction, each part [batch, hidden_size]."""
        widths = (self.proj_size or self.hidden_size, self.hidden_size)[: self.kept]
        shapes = [(*sequence.shape[1:-1], width) for width in widths]
        if given is None:
            return tuple(sequence.new_zeros(*shape) for shape in shapes)
        start: State = tuple(part[number] for part in given)
        if [part.shape for part in start] != shapes:
            wanted = [(len(self._suffixes()), *shape) for shape in shapes]
            raise ShapeError(f"the state is {self.kept} of shape {wanted}")
        return start

    def _run(
        self, sequence: Tensor, suffix: str, state: State, inside: Any = None
    ) -> tuple[Tensor, State]:
        """(h of every step, last state) of one layer in one direction; the state stays in steps
        that are not `inside` a sequence.
        """
        names = ("weight_ih", "bias_ih", "weight_hh", "bias_hh", "weight_hr")
        weights = [attribute(self, name + suffix, None) for name in names]
        own = type(self).step is not RNNBase.step
        run: Any = partial(_scanned, self.step) if own else partial(_run, self._kind())
        back = suffix.endswith("_reverse")
        outputs, *end = run(back, sequence, inside, *weights, *state)
        return outputs, tuple(end)

    def _kind(self) -> str:
        """Which of the `RULES` a step is."""
        return self.kind

    def step(self, inputs: Tensor, hidden: Tensor, state: State) -> State:
        """The next state, of what comes of the input and of the hidden state: both
        [batch, gates * hidden_size].
        """
        return RULES[self._kind()](inputs, hidden, state)


def _scanned(
    rule: Any, reverse: bool, sequence: Tensor, inside: Tensor | None, weight_ih: Tensor,
    bias_ih: Tensor | None, weight_hh: Tensor, bias_hh: Tensor | None, weight_hr: Tensor | None,
    *state: Tensor,
) -> State:  # fmt: skip
    """h of every step, and the last state, where `rule` is what a step does."""

    def step(state: State, given: Any) -> tuple[State, Tensor]:
        row = given if inside is None else given[0]
        after = rule(row.linear(weight_ih, bias_ih), state[0].linear(weight_hh, bias_hh), state)
        if weight_hr is not None:
            after = (after[0].linear(weight_hr), *after[1:])
        if inside is not None:
            pairs = zip(after, state, strict=True)
            after = tuple(given[1].where(new, old) for new, old in pairs)
        return after, after[0]

    end, outputs = scan(step, state, sequence if inside is None else (sequence, inside),
                        reverse=reverse)  # fmt: skip
    return outputs, *end


@repeated
def _run(kind: str, *rest: Any) -> State:
    return _scanned(RULES[kind], *rest)


def _known(nonlinearity: str) -> str:
    if nonlinearity not in ("tanh", "relu"):
        raise ValueRangeError(f"nonlinearity is 'tanh' or 'relu', not {nonlinearity!r}")
    return nonlinearity


class RNN(RNNBase):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu of it. Elman, "Finding structure in time",
    1990.
    """

    gates = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
    ):
        self.nonlinearity = _known(nonlinearity)
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional
        )

    def _kind(self) -> str:
        return f"RNN {self.nonlinearity}"


class LSTM(RNNBase):
    """c' = sigmoid(f) c + sigmoid(i) tanh(g) and h' = sigmoid(o) tanh(c'), where i, f, g and o are
    the parts of W_ih x + b_ih + W_hh h + b_hh. The state is (h, c). Hochreiter and Schmidhuber,
    1997; Gers, Schmidhuber and Cummins, 2000.
    """

    gates, kept, kind = 4, 2, "LSTM"


class GRU(RNNBase):
    """h' = (1 - z) n + z h with r = sigmoid(x_r + h_r), z = sigmoid(x_z + h_z) and n = tanh(x_n +
    r h_n), where x_* and h_* are the parts of W_ih x + b_ih and of W_hh h + b_hh. Cho et al., 2014,
    arXiv:1406.1078, with the reset after the product, as PyTorch has it.
    """

    gates, kind = 3, "GRU"


def _lstm_step(inputs: Tensor, hidden: Tensor, state: State) -> State:
    enter, keep, value, leave = (inputs + hidden).chunk(4, -1)
    cell = keep.sigmoid() * state[1] + enter.sigmoid() * value.tanh()
    return leave.sigmoid() * cell.tanh(), cell


def _gru_step(inputs: Tensor, hidden: Tensor, state: State) -> State:
    ours, theirs = inputs.chunk(3, -1), hidden.chunk(3, -1)
    reset, keep = (ours[gate].add(theirs[gate]).sigmoid() for gate in (0, 1))
    value = (ours[2] + reset * theirs[2]).tanh()
    return ((1 - keep) * value + keep * state[0],)


# What a step does, of what comes of the input and of the hidden state, and of the state.
RULES: Final[dict[str, Callable[[Tensor, Tensor, State], State]]] = {
    "RNN tanh": lambda inputs, hidden, _: ((inputs + hidden).tanh(),),
    "RNN relu": lambda inputs, hidden, _: ((inputs + hidden).relu(),),
    "LSTM": _lstm_step,
    "GRU": _gru_step,
}


# --- cells ----------------------------------------------------------------------------------------
class RNNCellBase(Layer):
    """One step of a recurrent layer: x[batch, input_size] and a state[batch, hidden_size], zeros
    unless it is given, or both without batch, give the next state.
    """

    gates: ClassVar[int]
    kept: ClassVar[int] = 1
    kind: ClassVar[str]

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True):
        self.input_size, self.hidden_size = input_size, hidden_size
        rows = self.gates * hidden_size
        self.weight_ih = init.default_weight((rows, input_size), hidden_size)
        self.weight_hh = init.default_weight((rows, hidden_size), hidden_size)
        self.bias_ih = init.default_weight((rows,), hidden_size) if bias else None
        self.bias_hh = init.default_weight((rows,), hidden_size) if bias else None

    def forward(self, x: Tensor, hx: Any = None) -> Any:
        """The next state."""
        if x.ndim not in (1, 2) or x.shape[-1] != self.input_size:
            wanted = f"(batch, {self.input_size}) or without batch"
            raise ShapeError(f"{type(self).__name__} expected {wanted}, got {x.shape}")
        nothing = x.new_zeros(*x.shape[:-1], self.hidden_size)
        given = (nothing,) * self.kept if hx is None else hx if isinstance(hx, tuple) else (hx,)
        inputs = x.linear(self.weight_ih, self.bias_ih)
        hidden = given[0].linear(self.weight_hh, self.bias_hh)
        after = RULES[self._kind()](inputs, hidden, given)
        return after if self.kept > 1 else after[0]

    def _kind(self) -> str:
        """Which of the `RULES` a step is."""
        return self.kind


class RNNCell(RNNCellBase):
    """A step of `RNN`."""

    gates = 1

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh"
    ):
        self.nonlinearity = _known(nonlinearity)
        super().__init__(input_size, hidden_size, bias)

    def _kind(self) -> str:
        return f"RNN {self.nonlinearity}"


class LSTMCell(RNNCellBase):
    """A step of `LSTM`: the state is (h, c)."""

    gates, kept, kind = 4, 2, "LSTM"


class GRUCell(RNNCellBase):
    """A step of `GRU`."""

    gates, kind = 3, "GRU"
