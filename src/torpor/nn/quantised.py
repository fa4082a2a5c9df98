"""Weights in 4 or 8 bits: blocks of neighbours along the input share a scale (and minimum).

    weight[out, block * b + i] = code[out, b, i] * scale[out, b] + minimum[out, b]

They are expressed in plain operations on tensors. A product reads the codes and computes the
numbers inside its own kernel: the weight in float32 is never in memory.
"""

from __future__ import annotations

from typing import Final

from torpor.base.dtypes import dtypes
from torpor.base.errors import ShapeError, ValueRangeError
from torpor.nn.layers import Linear
from torpor.nn.module import Module
from torpor.tensor import Tensor
from torpor.tensor.host import known_shape

MIDDLE: Final = 8  # the code of 0 among those of 4 bits without a minimum
NIBBLE: Final = 4  # bits


class Quantised(Module):
    """A matrix of shape (out, in) in `bits` (4 or 8) per element, and what scales it.

    codes:    4 bits: uint8 (out, in / block, block / 2); the low nibbles are the first half of a
              block. 8 bits: int8 (uint8 with a minimum), (out, in / block, block).
    scale:    floats (out, in / block). Codes of 4 bits without a minimum stand for -8 … 7 scales.
    minimum:  floats (out, in / block), or None; a zero point z is the minimum -z * scale.

    With blocks of 32 and float16 scales these are GGUF's Q4_0, Q8_0 and (with a minimum) Q4_1.
    """

    def __init__(self, codes: Tensor, scale: Tensor, minimum: Tensor | None = None, bits: int = 4):
        check_bits(bits)
        rank_fits = codes.ndim == 3 and scale.shape == codes.shape[:2]
        if not rank_fits or (minimum is not None and minimum.shape != scale.shape):
            what = "codes (out, blocks, bytes), scale and minimum (out, blocks)"
            shapes = [t.shape for t in (codes, scale, minimum) if t is not None]
            raise ShapeError(f"Quantised expected {what}, got {', '.join(map(str, shapes))}")
        self.codes, self.scale, self.minimum, self.bits = codes, scale, minimum, bits

    @property
    def shape(self) -> tuple[int, int]:
        """(out, in)"""
        rows, blocks, width = known_shape(self.codes.shape)
        return rows, blocks * width * 8 // self.bits

    def dequantise(self) -> Tensor:
        """The matrix in float32, shape (out, in); lazy, so a product computes it as it goes."""
        scale = self.scale.cast(dtypes.float32).unsqueeze(-1)
        numbers = unpacked(self.codes) if self.bits == NIBBLE else self.codes
        numbers = numbers.reshape(*self.scale.shape, -1)
        values = numbers.cast(dtypes.float32) * scale
        if self.minimum is not None:
            values = values + self.minimum.cast(dtypes.float32).unsqueeze(-1)
        elif self.bits == NIBBLE:
            values = values + scale * -MIDDLE
        return values.reshape(*self.shape)

    def forward(self, x: Tensor) -> Tensor:
        """x[.., in] to sum over in of x[.., in] * weight[out, in], shape (.., out)."""
        return x.linear(self.dequantise())

    def __repr__(self) -> str:
        return f"Quantised({self.shape[0]}, {self.shape[1]}, bits={self.bits})"


class QuantisedLinear(Module):
    """`Linear` with a quantised weight: y[.., out] = x[.., in] @ weight[out, in] + bias[out]."""

    def __init__(self, weight: Quantised, bias: Tensor | None = None):
        self.weight, self.bias = weight, bias

    @staticmethod
    def of(layer: Linear, bits: int = 4, block: int = 32, minimum: bool = False) -> QuantisedLinear:
        """A layer with another's weight quantised, and its bias."""
        weight = quantise(layer.weight.detach(), bits, block, minimum)
        return QuantisedLinear(weight, None if layer.bias is None else layer.bias.detach())

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.weight(x)
        return y if self.bias is None else y + self.bias

    def __repr__(self) -> str:
        rows, columns = self.weight.shape
        return f"QuantisedLinear({columns}, {rows}, bits={self.weight.bits})"


def quantise(weight: Tensor, bits: int = 4, block: int = 32, minimum: bool = False) -> Quantised:
    """A float matrix (out, in) with each block of neighbours along `in` rounded to its scale.

    Without a minimum the element of greatest magnitude is met exactly but for the scale's rounding
    to float16: it is code 0 of 4 bits, ±127 of 8. With a minimum codes go from the least element
    to the greatest one. `in` must be a multiple of `block`, which is even.
    """
    check_bits(bits)
    if weight.ndim != 2 or block < 2 or block % 2 or known_shape(weight.shape)[1] % block:
        what = f"a matrix whose rows are whole blocks of {block} (an even number)"
        raise ShapeError(f"quantise expected {what}, got {weight.shape}")
    values = weight.cast(dtypes.float32).reshape(weight.shape[0], -1, block)
    least, most = values.amin(-1, keepdim=True), values.amax(-1, keepdim=True)
    start: Tensor | None = None
    if minimum:
        start, step = least, (most - least) / (2**bits - 1)
        numbers = ((values - start) * inverse(step)).round().clip(0, 2**bits - 1)
    elif bits == NIBBLE:
        step = (-least > most).where(least, most) / -MIDDLE
        numbers = (values * inverse(step) + MIDDLE).round().clip(0, 2**bits - 1)
    else:
        step = (-least > most).where(-least, most) / 127
        numbers = (values * inverse(step)).round()
    codes = numbers.cast(dtypes.uint8 if minimum or bits == NIBBLE else dtypes.int8)
    return Quantised(
        (packed(codes) if bits == NIBBLE else codes).realize(),
        step.squeeze(-1).cast(dtypes.float16).realize(),
        None if start is None else start.squeeze(-1).cast(dtypes.float16).realize(),
        bits,
    )


def check_bits(bits: int) -> None:
    """A `ValueRangeError` for other widths than 4 and 8."""
    if bits not in (4, 8):
        raise ValueRangeError(f"weights are quantised to 4 or 8 bits, got {bits}")


def inverse(step: Tensor) -> Tensor:
    """1 / step, and 0 for blocks of nothing but zeros."""
    nothing = step == 0
    return nothing.where(0.0, 1 / nothing.where(1.0, step))


def packed(codes: Tensor) -> Tensor:
    """Codes of 4 bits (.., block), two to a byte: the first half of a block in the low nibbles."""
    half = known_shape(codes.shape)[-1] // 2
    return codes[..., :half] | (codes[..., half:] << NIBBLE)


def unpacked(codes: Tensor) -> Tensor:
    """What `packed` packed, (.., 2, block / 2): one expression for both halves, which read the same
    bytes.
    """
    shift = Tensor.full((1,), NIBBLE, dtype=dtypes.uint8, device=codes.device).pad((1, 0))
    return (codes.unsqueeze(-2) >> shift.reshape(2, 1)) & (2**NIBBLE - 1)
