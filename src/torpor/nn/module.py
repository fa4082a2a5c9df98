"""`Module`: a container of tensors and other modules, with PyTorch's methods and names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torpor.base.errors import DTypeError
from torpor.nn import state
from torpor.tensor import Tensor
from torpor.tensor.differentiate import forget_gradients
from torpor.tensor.shard import become


class Module:
    """Base of layers and models. Tensors that require a gradient are parameters; other tensors that
    are attributes are kept in the state too. No registration is needed: attributes are looked at.
    """

    training: bool = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; subclasses say."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it computes: forward")

    def children(self) -> Iterator[Module]:
        """The modules directly inside."""
        for value in vars(self).values():
            if isinstance(value, Module):
                yield value
            elif isinstance(value, list | tuple):
                yield from (v for v in value if isinstance(v, Module))
            elif isinstance(value, dict):
                yield from (v for v in value.values() if isinstance(v, Module))

    def modules(self) -> Iterator[Module]:
        """This module and all inside, each once."""
        seen: set[int] = set()
        stack: list[Module] = [self]
        while stack:
            module = stack.pop()
            if id(module) not in seen:
                seen.add(id(module))
                yield module
                stack.extend(reversed(list(module.children())))

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """(dotted name, parameter), each parameter once."""
        seen: set[int] = set()
        for name, tensor in state.get_state_dict(self).items():
            if tensor.requires_grad and id(tensor) not in seen:
                seen.add(id(tensor))
                yield name, tensor

    def parameters(self) -> Iterator[Tensor]:
        """Every tensor that requires a gradient, once."""
        return (tensor for _, tensor in self.named_parameters())

    def state_dict(self) -> dict[str, Tensor]:
        """Every tensor by its dotted name."""
        return state.get_state_dict(self)

    def load_state_dict(self, values: Mapping[str, Any], strict: bool = True) -> None:
        """Copy values in by name; with `strict`, missing and unexpected names are errors."""
        state.load_state_dict(self, values, strict=strict)

    def train(self, mode: bool = True) -> Module:
        """Training behaviour on (or off) here and inside; gives the module."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Module:
        """Training behaviour off; gives the module."""
        return self.train(False)

    def to(self, *arguments: Any, **options: Any) -> Module:
        """Move every tensor to a device, or every float to another float format, or both, as
        `Tensor.to` understands the arguments, in place: whoever holds a parameter keeps it. Gives
        the module.
        """
        unique = {id(tensor): tensor for tensor in state.get_state_dict(self).values()}
        for tensor in unique.values():
            before = tensor.detach()
            moved = before.to(*arguments, **options)
            if tensor.dtype.is_float and not moved.dtype.is_float:
                raise DTypeError(f"parameters stay floats; {moved.dtype} is none")
            if not tensor.dtype.is_float:
                moved = before.to(moved.device)
            if tensor.grad is not None:
                tensor.grad = tensor.grad.to(moved.device, moved.dtype)
            become(tensor, moved if moved is not before else moved.clone())
        return self

    def float(self) -> Module:
        """Floats as float32; gives the module."""
        return self.to("float32")

    def double(self) -> Module:
        """Floats as float64; gives the module."""
        return self.to("float64")

    def half(self) -> Module:
        """Floats as float16; gives the module."""
        return self.to("float16")

    def bfloat16(self) -> Module:
        """Floats as bfloat16; gives the module."""
        return self.to("bfloat16")

    def apply(self, function: Callable[[Module], None]) -> Module:
        """Call `function` with every module, inner ones first; gives the module."""
        for module in reversed(list(self.modules())):
            function(module)
        return self

    def zero_grad(self) -> None:
        """Forget the gradients."""
        forget_gradients(self.parameters())

    def __repr__(self) -> str:
        inside = ", ".join(repr(child) for child in self.children())
        return f"{type(self).__name__}({inside})"


class Sequential(Module):
    """Modules or functions one after the other."""

    def __init__(self, *layers: Callable[..., Any]):
        self.layers = list(layers)

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x

    def __len__(self) -> int:
        return len(self.layers)

    def __getitem__(self, index: int) -> Callable[..., Any]:
        return self.layers[index]

    def __iter__(self) -> Iterator[Callable[..., Any]]:
        return iter(self.layers)


class ModuleList(Module):
    """A list of modules."""

    def __init__(self, modules: Any = ()):
        self.items: list[Module] = list(modules)

    def append(self, module: Module) -> ModuleList:
        self.items.append(module)
        return self

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Module:
        return self.items[index]

    def __iter__(self) -> Iterator[Module]:
        return iter(self.items)


class ParameterList(Module):
    """A list of parameters."""

    def __init__(self, parameters: Any = ()):
        self.items: list[Tensor] = list(parameters)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Tensor:
        return self.items[index]

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.items)
