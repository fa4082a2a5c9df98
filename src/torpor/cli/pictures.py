"""Digits in the terminal and as PNG, and pictures from files as the network wants them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from torpor.base.errors import ParseError

Picture = NDArray[np.float32]
_SHADES = " .:-=+*#%@"
TILE = 28
SCALE = 3


def as_text(pictures: list[Picture]) -> str:
    """Pictures [28, 28] side by side in characters, two rows of pixels a line."""
    lines = []
    for row in range(0, TILE, 2):
        parts = []
        for picture in pictures:
            pair = (picture[row] + picture[row + 1]) / 2
            levels = (pair * (len(_SHADES) - 1)).astype(int).clip(0, len(_SHADES) - 1)
            parts.append("".join(_SHADES[level] for level in levels))
        lines.append("  ".join(parts).rstrip())
    return "\n".join(lines)


def save_sheet(pictures: list[Picture], path: Path, columns: int = 10) -> None:
    """The pictures as one PNG, `columns` a row."""
    rows = max(1, -(-len(pictures) // columns))
    sheet = np.zeros((rows * TILE, columns * TILE), np.float32)
    for number, picture in enumerate(pictures):
        down, right = number // columns * TILE, number % columns * TILE
        sheet[down : down + TILE, right : right + TILE] = picture
    image = Image.fromarray(((1 - sheet) * 255).astype(np.uint8))
    image.resize((sheet.shape[1] * SCALE, sheet.shape[0] * SCALE), Image.Resampling.NEAREST).save(
        path
    )


def load_picture(path: str) -> Picture:
    """A picture file as [28, 28], 0 paper to 1 ink: dark on light is turned round, the digit is
    scaled to 20 pixels and centred by its weight, as MNIST's makers did.
    """
    try:
        with Image.open(path) as opened:
            gray = ImageOps.exif_transpose(opened).convert("L")
    except Exception as error:  # Pillow's readers raise many kinds at what is damaged
        raise ParseError(f"{path} is not a picture that can be read: {error}") from None
    values = np.asarray(gray, np.float32) / 255
    border = np.concatenate([values[0], values[-1], values[:, 0], values[:, -1]])
    ink = 1 - values if border.mean() > 0.5 else values
    ink = np.where(ink > 0.15, ink, 0)
    rows, columns = np.nonzero(ink)
    if len(rows) == 0:
        raise ParseError(f"{path} shows nothing: every pixel is as light as its border")
    cropped = ink[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
    scale = 20 / max(cropped.shape)
    size = tuple(max(1, round(side * scale)) for side in reversed(cropped.shape))
    small = Image.fromarray((cropped * 255).astype(np.uint8)).resize(
        (size[0], size[1]), Image.Resampling.BILINEAR
    )
    return centred(np.asarray(small, np.float32) / np.float32(255))


def centred(small: Picture) -> Picture:
    """A picture of at most 20 by 20 on a field of 28 by 28, its centre of mass in the middle."""
    height, width = small.shape
    weight = small.sum()
    down = 14 - (small.sum(1) @ np.arange(height) / weight + 0.5)
    right = 14 - (small.sum(0) @ np.arange(width) / weight + 0.5)
    top = int(np.clip(round(float(down)), 0, TILE - height))
    left = int(np.clip(round(float(right)), 0, TILE - width))
    field = np.zeros((TILE, TILE), np.float32)
    field[top : top + height, left : left + width] = small
    return field
