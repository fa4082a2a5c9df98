"""What a module holds, by PyTorch's names of its dicts: `_modules`, `_parameters`, `_buffers`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, final

from torpor.nn import state
from torpor.tensor import Tensor


@final
class Registry(MutableMapping[str, Any]):
    """The members of a module that are of one kind, by name. What is put in becomes a member, and
    what is taken out is none any more; a `KeyError` for a name that none of the kind has.
    """

    def __init__(self, module: Any, kind: Callable[[Any], bool]):
        self._module, self._kind = module, kind

    def _held(self) -> dict[str, Any]:
        buffers, members = state.buffers_of(self._module), state.members(self._module)
        return {
            name: one for name, one in members
            if self._kind(one) and (state.is_kept(one) or name in buffers)
        }  # fmt: skip

    def __getitem__(self, name: str) -> Any:
        return self._held()[name]

    def __setitem__(self, name: str, value: Any) -> None:
        state.put(self._module, name, value)

    def __delitem__(self, name: str) -> None:
        if name not in self._held():
            raise KeyError(name)
        state.take_out(self._module, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._held())

    def __len__(self) -> int:
        return len(self._held())

    def __repr__(self) -> str:
        return repr(self._held())


@final
class Registered:
    """The registry of one kind as an attribute; one that a module sets itself comes before it."""

    def __init__(self, kind: Callable[[Any], bool]):
        self._kind = kind

    def __get__(self, module: Any, owner: type) -> Any:
        return self if module is None else Registry(module, self._kind)


def is_trained(member: Any) -> bool:
    return isinstance(member, Tensor) and state.is_trained(member)


def is_buffer(member: Any) -> bool:
    return isinstance(member, Tensor) and not state.is_trained(member)
