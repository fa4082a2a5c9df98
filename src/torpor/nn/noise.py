"""Functions of the network's noise: what is dropped, mixed or taken at random, in training."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

from torpor.base.errors import ShapeError, ValueRangeError
from torpor.tensor import Tensor
from torpor.tensor.host import known_shape
from torpor.tensor.spelling import pair, spell, within
from torpor.tensor.write import update

# Klambauer et al., 2017, arXiv:1706.02515: what SELU tends to from below, -scale * alpha.
_LOW = -1.7580993408473766


def dropout(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Each element 0 with probability p, else divided by 1 - p; x itself unless `training`."""
    made: Tensor = x.dropout(p, training=training)
    return update(x, made) if inplace else made


def _channels(axes: int, shape: str) -> Callable[..., Tensor]:
    def dropped(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        within("dropout's probability", p, 0, 1)
        batched = axes == 2 and x.ndim in (2, 3)
        if batched:
            what = f"dropout2d of {x.ndim} axes takes the second for channels, as PyTorch's"
            warnings.warn(f"{what}; write dropout1d, or dropout", stacklevel=3)
        elif x.ndim not in (axes + 1, axes + 2):
            raise ShapeError(f"(batch, channel, {axes} more axes) or without batch, not {x.shape}")
        lead = 2 if batched else x.ndim - axes
        mask = x.new_ones((*x.shape[:lead], *[1] * (x.ndim - lead))).dropout(p, training=training)
        made = x * mask if training and p else x
        return update(x, made) if inplace else made

    dropped.__name__ = dropped.__qualname__ = f"dropout{axes}d"
    dropped.__doc__ = f"""Each channel of x[batch, channel, {shape}] 0 with probability p, else
    divided by 1 - p. Tompson et al., 2015, arXiv:1411.4280.
    """
    return dropped


dropout1d = _channels(1, "length")
dropout2d = _channels(2, "height, width")
dropout3d = _channels(3, "depth, height, width")


def _alpha(x: Tensor, shape: Any, p: float, training: bool, inplace: bool) -> Tensor:
    """Elements become what SELU tends to from below; mean 0 and variance 1 stay."""
    within("dropout's probability", p, 0, 1)
    if not training or p == 0:
        return x
    scale = ((1 - p) * (1 + p * _LOW * _LOW)) ** -0.5 if p < 1 else 0.0
    kept = Tensor.rand(*shape, device=x.device) >= p
    made: Tensor = kept.where(x, _LOW) * scale - scale * _LOW * p
    return update(x, made) if inplace else made


def alpha_dropout(
    x: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Dropout for SELU: elements become its lower bound, and mean 0 and variance 1 stay. Klambauer
    et al., 2017, arXiv:1706.02515.
    """
    return _alpha(x, x.shape, p, training, inplace)


def feature_alpha_dropout(
    x: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """`alpha_dropout` of whole channels of x[batch, channel, ...]."""
    return _alpha(x, (*x.shape[:2], *[1] * (x.ndim - 2)), p, training, inplace)


def rrelu(
    x: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False,
    inplace: bool = False,
) -> Tensor:  # fmt: skip
    """x where it is positive, else x times a slope: in training uniform from `lower` to `upper`,
    otherwise their mean. Xu et al., 2015, arXiv:1505.00853.
    """
    if lower > upper:
        raise ValueRangeError(f"rrelu's slopes lie between {lower} and {upper}, which is less")
    if training:
        slope = Tensor.rand(x.shape, dtype=x.dtype, device=x.device) * (upper - lower) + lower
        made: Tensor = (x >= 0).where(x, x * slope)
    else:
        made = x.leaky_relu((lower + upper) / 2)
    return update(x, made) if inplace else made


def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """A sample of classes with these logits, as probabilities; with `hard` one of them is 1, with
    the gradient of the probabilities. Jang, Gu and Poole, 2016, arXiv:1611.01144.
    """
    uniform = Tensor.rand(logits.shape, dtype=logits.dtype, device=logits.device)
    noise = -(-(1 - uniform).log()).log()
    soft: Tensor = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    best = soft.argmax(dim, True)
    one: Tensor = soft.detach().zeros_like().scatter(dim, best, 1.0)
    return one - soft.detach() + soft


# --- pools of random windows ----------------------------------------------------------------------
def _fractional(axes: int, shape: str) -> Callable[..., Any]:
    def pool(
        x: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
        return_indices: bool = False, _random_samples: Tensor | None = None,
    ) -> Any:  # fmt: skip
        samples = _random_samples
        sizes, inner = pair(kernel_size, axes), known_shape(x.shape[-axes:])
        if (output_size is None) == (output_ratio is None):
            raise ShapeError(
                "a fractional pool needs an output_size or an output_ratio, and not both"
            )
        if output_size is not None:
            wanted = pair(output_size, axes)
        else:
            ratios = (
                output_ratio if isinstance(output_ratio, tuple | list) else [output_ratio] * axes
            )
            wanted = tuple(int(n * ratio) for n, ratio in zip(inner, ratios, strict=True))
        flat = x.reshape(-1, *inner) if x.ndim == axes + 1 else x.flatten(0, 1)
        rows = flat.shape[0]
        lead = (1, *x.shape[:1]) if x.ndim == axes + 1 else x.shape[:2]
        if samples is None:
            samples = Tensor.rand(*lead, axes, dtype=x.dtype, device=x.device)
        samples = samples.reshape(rows, axes)
        place: Any = 0
        for axis, (size, length, count) in enumerate(zip(sizes, inner, wanted, strict=True)):
            if size + count - 1 > length:
                raise ShapeError(f"{count} pools of {size} need {size + count - 1}, not {length}")
            starts = _starts(samples.narrow(1, axes - 1 - axis, 1), size, length, count)
            index = starts.unsqueeze(2) + Tensor.arange(size, device=x.device)
            shape = [rows, *[1] * (2 * axes)]
            shape[1 + axis], shape[1 + axes + axis] = count, size
            place = place * length + index.reshape(shape)
        found = flat.flatten(1).gather(1, place.flatten(1)).reshape(*place.shape[: axes + 1], -1)
        best, taken = found.max(-1)
        places = (
            place.reshape(*place.shape[: axes + 1], -1).gather(-1, taken.unsqueeze(-1)).squeeze(-1)
        )
        whole = (*x.shape[: x.ndim - axes], *wanted)
        best, places = best.reshape(whole), places.reshape(whole)
        return (best, places) if return_indices else best

    pool.__name__ = pool.__qualname__ = f"fractional_max_pool{axes}d"
    pool.__doc__ = f"""The maxima of windows that begin at random: of x[batch, channel, {shape}] (or
    without batch), so many that `output_size` comes out, or `output_ratio` of what there is; with
    `return_indices` also where they stand. Graham, 2014, arXiv:1412.6071.
    """
    return pool


def _starts(sample: Any, size: int, length: int, count: int) -> Any:
    """Where the windows of one axis begin: Graham, 2014, arXiv:1412.6071, section 2."""
    last = length - size
    if count == 1:
        return sample.long() * 0 + last
    alpha = last / (count - 1)
    number = Tensor.arange(count, device=sample.device)
    starts = ((number + sample) * alpha).floor().long() - (sample * alpha).floor().long()
    return (number == count - 1).where(last, starts)


fractional_max_pool2d = _fractional(2, "height, width")
fractional_max_pool3d = _fractional(3, "depth, height, width")
spell(sys.modules[__name__])
