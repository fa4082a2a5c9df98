"""Recurrent layers, with PyTorch's names, constructor arguments, distributions and state names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, Final

from torpor.base.attributes import attribute
from torpor.base.errors import ShapeError, ValueRangeError
from torpor.nn import init
from torpor.nn.layer import Renewable
from torpor.nn.utils.rnn import PackedSequence, pad_packed_sequence, repacked
from torpor.tensor import Tensor
from torpor.tensor.amp import lowered
from torpor.tensor.host import known_shape
from torpor.tensor.looping import scan
from torpor.tensor.pending import wait_for_loop
from torpor.tensor.repeated import repeated
from torpor.tensor.spelling import among, within

State = tuple[Tensor, ...]


class RNNBase(Renewable):
    """Layers over layers of steps along a sequence, forwards and, if `bidirectional`, backwards.

    x[length, batch, input_size], with `batch_first` x[batch, length, input_size], or without batch
    x[length, input_size], gives the last layer's h[length, batch, directions * hidden_size] in the
    same order, and the last states[layers * directions, batch, hidden_size]. In training `dropout`
    drops between layers. x may be packed (`nn.utils.rnn`). Weights begin uniform in
    ±1/sqrt(hidden_size).
    """

    gates: ClassVar[int]  # what a step computes of its input and of the hidden state
    kept: ClassVar[int] = 1  # tensors that a step hands to the next, the hidden state first
    kind: Any  # which of the `RULES` a step is

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
        for name, flag in (("bias", bias), ("batch_first", batch_first)):
            if not isinstance(flag, bool):
                raise TypeError(f"{name} is True or False, not {flag!r}")
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

    def flatten_parameters(self) -> None:
        """Nothing: how weights lie in memory is the compiler's matter."""

    def _directions(self) -> tuple[str, ...]:
        return ("", "_reverse") if self.bidirectional else ("",)

    def _suffixes(self) -> list[str]:
        """What the names of the weights end in: one layer after the other, each way."""
        layers = range(self.num_layers)
        return [f"_l{layer}{way}" for layer in layers for way in self._directions()]

    def forward(self, x: Any, hx: Any = None) -> tuple[Any, Any]:
        """(h of every step, last state). The state begins as zeros unless `hx` is given. Of a
        `PackedSequence` h is one, too, and each sequence's last state that of its own last step.
        """
        if isinstance(x, PackedSequence):
            padded, lengths = pad_packed_sequence(x)
            steps = Tensor.arange(padded.shape[0]).unsqueeze(1)
            inside = (steps < lengths).unsqueeze(-1).to(padded.device)
            output, ends = self._layers(padded, hx, inside)
            return repacked(output, x), ends
        if x.ndim not in (2, 3) or x.shape[-1] != self.input_size or 0 in x.shape:
            wanted = f"(length, batch, {self.input_size}) or without batch"
            raise ShapeError(f"{type(self).__name__} expected {wanted}, got {x.shape}")
        turned = self.batch_first and x.ndim == 3
        output, ends = self._layers(x.transpose(0, 1) if turned else x, hx)
        return output.transpose(0, 1) if turned else output, ends

    def _layers(self, sequence: Tensor, state: Any, inside: Any = None) -> tuple[Tensor, Any]:
        given = None if state is None else _parts(state)
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
        for part in ends:
            wait_for_loop(part._storage)
        return sequence, ends if self.kept > 1 else ends[0]

    def _start(self, sequence: Tensor, given: Any, number: int) -> State:
        """The state that one layer starts from in one direction, each part [batch, hidden_size]."""
        widths = (self.proj_size or self.hidden_size, self.hidden_size)[: self.kept]
        shapes = [(*sequence.shape[1:-1], width) for width in widths]
        if given is None:
            return tuple(sequence.new_zeros(*shape) for shape in shapes)
        _check_state(given, shapes, [len(self._suffixes())])
        return tuple(part[number] for part in given)

    def _run(
        self, sequence: Tensor, suffix: str, state: State, inside: Any = None
    ) -> tuple[Tensor, State]:
        """(h of every step, last state) of one layer in one direction; the state stays in steps
        that are not `inside` a sequence.
        """
        names = ("weight_ih", "bias_ih", "weight_hh", "bias_hh", "weight_hr")
        weights = [attribute(self, name + suffix, None) for name in names]
        own = type(self).step is not RNNBase.step
        run: Any = partial(_scanned, self.step) if own else partial(_run, self.kind)
        back = suffix.endswith("_reverse")
        outputs, *end = lowered(run)(back, sequence, inside, *weights, *state)
        return outputs, tuple(end)

    def hold(self, weights: Sequence[Tensor], bias: bool) -> None:
        """Take sizes and weights from a list: of each layer, each way, W_ih, W_hh, then b_ih and
        b_hh if there are biases, then W_hr if h is projected.
        """
        suffixes, names = self._suffixes(), ["weight_ih", "weight_hh"]
        names += ["bias_ih", "bias_hh"] if bias else []
        if len(weights) == len(suffixes) * (len(names) + 1) and self.kept > 1:
            names.append("weight_hr")
        if len(weights) != len(suffixes) * len(names):
            what = f"{len(suffixes)} layers have {len(suffixes) * len(names)} weights"
            raise ShapeError(f"{what}, not {len(weights)}")
        named = [name + suffix for suffix in suffixes for name in names]
        vars(self).update(zip(named, weights, strict=True))
        rows, self.input_size = known_shape(weights[0].shape)
        self.hidden_size = rows // self.gates
        self.proj_size = len(weights[len(names) - 1]) if "weight_hr" in names else 0

    def step(self, inputs: Tensor, hidden: Tensor, state: State) -> State:
        """The next state, of what comes of the input and of the hidden state: both
        [batch, gates * hidden_size].
        """
        return RULES[self.kind](inputs, hidden, state)


def _parts(state: Any) -> State:
    """The tensors of a state, given as one or as several."""
    return (state,) if isinstance(state, Tensor) else tuple(state)


def _check_state(given: State, shapes: Sequence[tuple[Any, ...]], lead: Sequence[int]) -> None:
    """Raise unless the state's tensors have these shapes, behind `lead`."""
    wanted = [(*lead, *shape) for shape in shapes]
    found = [part.shape for part in given]
    if found != wanted:
        named = " and ".join(map(str, wanted))
        raise ShapeError(f"the state has shape {named}, not {' and '.join(map(str, found))}")


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


_by_nonlinearity = property(lambda self: f"RNN {self.nonlinearity}")


class RNN(RNNBase):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu of it. Elman, "Finding structure in time",
    1990.
    """

    gates, kind = 1, _by_nonlinearity

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
        among("nonlinearity", nonlinearity, "tanh", "relu")
        self.nonlinearity = nonlinearity
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional
        )


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
class RNNCellBase(Renewable):
    """One step of a recurrent layer: x[batch, input_size] and a state[batch, hidden_size], zeros
    unless it is given, or both without batch, give the next state.
    """

    gates: ClassVar[int]
    kept: ClassVar[int] = 1
    kind: Any

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
        shape = (*x.shape[:-1], self.hidden_size)
        given = (x.new_zeros(*shape),) * self.kept if hx is None else _parts(hx)
        _check_state(given, [shape] * self.kept, [])
        inputs = x.linear(self.weight_ih, self.bias_ih)
        hidden = given[0].linear(self.weight_hh, self.bias_hh)
        after = RULES[self.kind](inputs, hidden, given)
        return after if self.kept > 1 else after[0]


class RNNCell(RNNCellBase):
    """A step of `RNN`."""

    gates, kind = 1, _by_nonlinearity

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh"
    ):
        among("nonlinearity", nonlinearity, "tanh", "relu")
        self.nonlinearity = nonlinearity
        super().__init__(input_size, hidden_size, bias)


class LSTMCell(RNNCellBase):
    """A step of `LSTM`: the state is (h, c)."""

    gates, kept, kind = 4, 2, "LSTM"


class GRUCell(RNNCellBase):
    """A step of `GRU`."""

    gates, kind = 3, "GRU"


# --- functions ------------------------------------------------------------------------------------
def _over_layers(name: str, layer: type[RNNBase], **options: Any) -> Callable[..., Any]:
    """The layer as a function of its weights."""

    def function(
        input: Any, hx: Any, params: Any, has_biases: Any, num_layers: Any, dropout: Any,
        train: Any, bidirectional: Any, batch_first: Any,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        packed = not isinstance(has_biases, bool)
        if packed:  # then the arguments are one further on
            input = PackedSequence(input, hx)
            hx, params, has_biases, num_layers, dropout, train, bidirectional = (
                params, has_biases, num_layers, dropout, train, bidirectional, batch_first
            )  # fmt: skip
        made: Any = layer.__new__(layer)
        vars(made).update(
            num_layers=num_layers, bidirectional=bidirectional, dropout=dropout, training=train,
            batch_first=not packed and batch_first, **options,
        )  # fmt: skip
        made.hold(params, has_biases)
        output, ends = made(input, hx)
        return (output.data if packed else output, *_parts(ends))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""(h of every step, each last state) of `nn.{layer.__name__}` whose weights
    are `params`, a list in the order of the layer's own; of packed data (data, batch_sizes, hx,
    params, has_biases, num_layers, dropout, train, bidirectional).
    """
    return function


def _of_cell(name: str, cell: type[RNNCellBase], **options: Any) -> Callable[..., Any]:
    """The cell as a function of its weights."""

    def function(
        input: Tensor, hx: Any, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None,
        b_hh: Tensor | None = None,
    ) -> Any:  # fmt: skip
        made: Any = cell.__new__(cell)
        vars(made).update(
            weight_ih=w_ih, weight_hh=w_hh, bias_ih=b_ih, bias_hh=b_hh,
            input_size=w_ih.shape[-1], hidden_size=w_hh.shape[-1], **options,
        )  # fmt: skip
        return made(input, hx)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The next state of `nn.{cell.__name__}` that has these weights."
    return function


lstm, lstm_cell = _over_layers("lstm", LSTM), _of_cell("lstm_cell", LSTMCell)
gru, gru_cell = _over_layers("gru", GRU), _of_cell("gru_cell", GRUCell)
rnn_tanh = _over_layers("rnn_tanh", RNN, nonlinearity="tanh")
rnn_relu = _over_layers("rnn_relu", RNN, nonlinearity="relu")
rnn_tanh_cell = _of_cell("rnn_tanh_cell", RNNCell, nonlinearity="tanh")
rnn_relu_cell = _of_cell("rnn_relu_cell", RNNCell, nonlinearity="relu")


__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]
