"""Times imports: only here, in the import system, is seen where one begins and ends."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

from torpor.base.phases import heard, phase


class _Importing(threading.local):
    """Whether this thread is loading a module: only the outermost one is told of."""

    busy = False


_importing: Final = _Importing()


class _Finder:
    """Asks the other finders, and times the loading of what they find."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module's spec; None where nobody has it or wants to know how long it takes."""
        if _importing.busy or not heard():
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(name, path, target) if find is not None else None
            if spec is not None:
                with suppress(AttributeError):  # a loader that takes no attributes is not timed
                    loader: Any = spec.loader
                    loader.exec_module = _timed(loader, name)
                return spec
        return None


def _timed(loader: Any, name: str) -> Any:
    load = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        del loader.exec_module  # a module may keep its loader, which is to be as it was
        _importing.busy = True
        try:
            with phase("import", name):
                load(module)
        finally:
            _importing.busy = False

    return exec_module


@contextmanager
def importing() -> Iterator[None]:
    """Tell of the imports in the block."""
    finder: Any = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        with suppress(ValueError):
            sys.meta_path.remove(finder)
