"""What no result depends on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Unseen:
    """Values by name that are kept for people to read: a jitted function, which is guarded by what
    it could have read, is not guarded by them.
    """

    __slots__ = ("values",)

    def __init__(self, values: Mapping[str, Any]):
        self.values = dict(values)
