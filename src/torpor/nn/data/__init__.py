"""Data sets and their loading."""

from torpor.nn.data.digits import load_digits

__all__ = ["load_digits"]
