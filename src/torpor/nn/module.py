"""`Module`: a container of tensors and other modules, with PyTorch's methods and names."""

from __future__ import annotations

import inspect
import itertools
import reprlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from torpor.base.attributes import attribute, attributes
from torpor.base.errors import DTypeError, ValueRangeError
from torpor.nn import hooks, module_state, registries, state
from torpor.nn.trained import Parameter
from torpor.tensor import Tensor
from torpor.tensor.absent import Absent
from torpor.tensor.custom import Removable
from torpor.tensor.gradients import clear_gradients, forget_gradients
from torpor.tensor.layout import cuda_device
from torpor.tensor.shard import become
from torpor.tensor.spelling import in_words_of, no_tensor


def _floats_as(name: str) -> Callable[[Any], Any]:
    """The method that casts floats to a format."""

    def method(self: Module) -> Module:
        return self.to(name)

    method.__doc__ = f"Floats as {name}; gives the module."
    return method


class Module:
    """Base of layers and models. Leaves that require a gradient are parameters, also while
    `requires_grad_(False)` holds; what is computed from them is neither parameter nor buffer, and
    other tensors that are attributes are buffers. No registration is needed: attributes are looked
    at, and lists, tuples and dicts among them.

    >>> class Net(torpor.nn.Module):
    ...     def __init__(self):
    ...         self.layers = [torpor.nn.Linear(2, 4), torpor.nn.Linear(4, 1, bias=False)]
    ...     def forward(self, x):
    ...         return self.layers[1](self.layers[0](x).relu())
    >>> net = Net()
    >>> list(net.state_dict()), net(Tensor([[0.5, 1.0]])).shape
    (['layers.0.weight', 'layers.0.bias', 'layers.1.weight'], (1, 1))
    """

    training: bool = True
    compile: Any = Absent("compile", "Module")
    share_memory: Any = Absent("share_memory", "Module")
    register_backward_hook: Any = Absent("register_backward_hook", "Module")
    _hooks: hooks.Hooks | None = None
    _everywhere: ClassVar[hooks.Hooks | None] = None  # hooks of all modules
    _vacant: frozenset[str] = frozenset()  # names whose place is kept while they are None
    _has_synonyms: ClassVar[bool] = False  # whether what `forward` takes has PyTorch's names, too
    _modules: Any = registries.Registered(lambda member: isinstance(member, Module))
    _parameters: Any = registries.Registered(registries.is_trained)
    _buffers: Any = registries.Registered(registries.is_buffer)

    call_super_init: bool = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Nothing: as in PyTorch, bases that stand behind `Module` are not initialised, unless a
        class says `call_super_init = True`.
        """
        if self.call_super_init:
            super().__init__(*args, **kwargs)
        elif args or kwargs:
            what = ", ".join([*map(repr, args), *kwargs])
            raise TypeError(f"{type(self).__name__} was given what it does not take: {what}")

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._has_synonyms = is_own(cls) if "forward" in vars(cls) else cls._has_synonyms

    def __setattr__(self, name: str, value: Any) -> None:
        """As in PyTorch, what was None has its place where it becomes a module or a tensor, unless
        it was one or was registered before.
        """
        own = attributes(self)
        before = own.get(name, self)
        if before is None and name not in self._vacant and isinstance(value, Module | Tensor):
            del own[name]
        elif value is None and before is not self and isinstance(before, Module | Tensor):
            own["_vacant"] = self._vacant | {name}
        super().__setattr__(name, value)
        if isinstance(value, Tensor):
            buffers = state.buffers_of(self)
            if not attribute(value, "persistent", True):
                own["_registered"] = {**buffers, name: False}
            elif buffers and name in buffers and isinstance(value, Parameter):
                own["_registered"] = {one: kept for one, kept in buffers.items() if one != name}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs and self._has_synonyms:
            kwargs = in_words_of(type(self).forward, kwargs)
        try:
            if self._hooks is None and self._everywhere is None:
                return self.forward(*args, **kwargs)
            return hooks.called(self, args, kwargs)
        except Exception as error:
            _tell(error, self, args)  # apart: a jitted function is guarded by what is read here
            raise

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; subclasses say."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it computes: forward")

    # --- modules inside ---------------------------------------------------------------------------
    def named_children(self) -> Iterator[tuple[str, Module]]:
        """(name, module) directly inside, each module once."""
        seen: set[int] = set()
        for name, module in state.modules_inside(self, Module):
            if id(module) not in seen:
                seen.add(id(module))
                yield name, module

    def children(self) -> Iterator[Module]:
        """The modules directly inside."""
        return (module for _, module in self.named_children())

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """(dotted name, module) of this module and all inside, each once; without
        `remove_duplicate` under each of its names, but not inside of itself.
        """
        memo = set() if memo is None else memo
        if self not in memo:
            memo.add(self)
            yield prefix, self
            for name, module in state.modules_inside(self, Module):
                inner = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, inner, remove_duplicate)
            if not remove_duplicate:
                memo.remove(self)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all inside, each once unless `remove_duplicate` is False."""
        return (found for _, found in self.named_modules(remove_duplicate=remove_duplicate))

    def add_module(self, name: str, module: Module | None) -> None:
        """Make the module an attribute."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{name!r} is to be a Module, not {type(module).__name__}")
        self._set(name, module)

    register_module = add_module

    def get_submodule(self, target: str) -> Module:
        """The module of this dotted name; itself for ""."""
        found = dict(self.named_modules(remove_duplicate=False)).get(target)
        if found is None:
            raise AttributeError(f"{type(self).__name__} has no module {target!r}")
        return found

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put a module where the dotted name says; with `strict` only where one was."""
        if strict:
            self.get_submodule(target)
        owner, _, name = target.rpartition(".")
        state.put(self.get_submodule(owner), name, module)

    # --- tensors ----------------------------------------------------------------------------------
    def _set(self, name: str, value: Any) -> None:
        if not name or "." in name:
            raise KeyError(f"a name is not empty and has no dot, unlike {name!r}")
        if hasattr(self, name) and name not in attributes(self):
            raise KeyError(f"{type(self).__name__} has an attribute {name!r} already")
        setattr(self, name, value)
        if value is None:
            self._vacant = self._vacant | {name}

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Make the tensor an attribute that is not trained; not `persistent`, and it is no part of
        the state.
        """
        if tensor is not None and not isinstance(tensor, Tensor):
            raise DTypeError(f"the buffer {name!r} is a tensor or None, not {tensor!r}")
        if isinstance(attribute(self, name, None), Parameter):
            raise KeyError(f"{type(self).__name__} has a parameter {name!r} already")
        self._set(name, tensor)
        self._registered = {**state.buffers_of(self), name: persistent}

    def register_parameter(self, name: str, param: Tensor | None) -> None:
        """Make the tensor an attribute that is trained."""
        if param is not None and not isinstance(param, Tensor):
            raise DTypeError(f"the parameter {name!r} is a tensor or None, not {param!r}")
        self._set(name, param)

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """(dotted name, parameter), each parameter once."""
        return self._named(True, prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Tensor]:
        """Every parameter, once."""
        return (tensor for _, tensor in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """(dotted name, tensor) of those that are not trained, each once."""
        return self._named(False, prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Every tensor that is not trained, once."""
        return (tensor for _, tensor in self.named_buffers(recurse=recurse))

    def _named(
        self, trained: bool, prefix: str, recurse: bool, once: bool
    ) -> Iterator[tuple[str, Tensor]]:
        seen: set[int] = set()
        inside = () if recurse else tuple(f"{name}." for name, _ in self.named_children())
        for name, tensor in state.tensors_of(self).items():
            if state.is_trained(tensor) is not trained or name.startswith(inside):
                continue
            if not once or id(tensor) not in seen:
                seen.add(id(tensor))
                yield f"{prefix}.{name}" if prefix else name, tensor

    def get_parameter(self, target: str) -> Tensor:
        """The parameter of this dotted name."""
        return self._found(target, dict(self.named_parameters(remove_duplicate=False)))

    def get_buffer(self, target: str) -> Tensor:
        """The buffer of this dotted name."""
        return self._found(target, dict(self.named_buffers(remove_duplicate=False)))

    def _found(self, target: str, among: dict[str, Tensor]) -> Tensor:
        if target not in among:
            raise AttributeError(f"{type(self).__name__} has no such tensor: {target!r}")
        return among[target]

    def state_dict(
        self, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Tensor]:
        """Every tensor by its dotted name: views of them that are not trained, so that writing to
        one writes to the module's; with `keep_vars` those themselves. They are put into
        `destination`, if there is one.
        """
        found: dict[str, Tensor] = {} if destination is None else destination
        module_state.give(self, found, prefix, keep_vars)
        return found

    def load_state_dict(
        self, values: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> state.Misfit:
        """Copy values in by name; with `strict`, missing and unexpected names are errors, else the
        result names them. With `assign` formats become those of the values.
        """
        return module_state.take(self, values, strict, assign)

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: Any, strict: bool,
        missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        """What PyTorch's subclasses change names in, or say what fits, before values are copied."""
        rest = local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        module_state.look(self, state_dict, prefix, *rest)

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        """Put the module's own tensors into a state: what PyTorch's subclasses add to."""
        for name, tensor in module_state.own_tensors(self, prefix).items():
            destination[name] = tensor if keep_vars else tensor.detach()

    def get_extra_state(self) -> Any:
        """What the module's state has beside tensors, where a subclass says so: `state_dict` has it
        as "_extra_state", and `set_extra_state` is given it back by `load_state_dict`.
        """
        raise NotImplementedError(f"{type(self).__name__} has no state beside its tensors")

    def set_extra_state(self, state: Any) -> None:
        """Take over what `get_extra_state` gave."""
        raise NotImplementedError(f"{type(self).__name__} has no state beside its tensors")

    # --- all that is inside -----------------------------------------------------------------------
    def train(self, mode: bool = True) -> Module:
        """Training behaviour on (or off) here and inside; gives the module."""
        if not isinstance(mode, bool | int):
            raise ValueRangeError(f"a module is in training or not: True or False, not {mode!r}")
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Module:
        """Training behaviour off; gives the module."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Module:
        """Let every parameter require a gradient, or none; gives the module."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def to(self, *arguments: Any, **options: Any) -> Module:
        """Move every tensor to a device, or every float to another float format (complex numbers to
        a complex one), or both, as `Tensor.to` understands the arguments, in place: whoever holds a
        parameter keeps it. Gives the module.
        """
        unique = {id(tensor): tensor for tensor in state.tensors_of(self).values()}
        for tensor in unique.values():
            before = tensor.detach()
            moved = before.real.to(*arguments, **options)
            if tensor.dtype.is_float and not moved.dtype.is_float:
                raise DTypeError(f"parameters stay floats; {moved.dtype} is none")
            if not tensor.dtype.is_float:
                both = tensor.dtype.is_complex and moved.dtype.is_complex
                moved = before.to(moved.device, moved.dtype if both else None)
            if tensor.grad is not None:
                tensor.grad = tensor.grad.to(moved.device, moved.dtype)
            become(tensor, moved if moved is not before else moved.clone())
        return self

    def to_empty(self, *, device: str | None, recurse: bool = True) -> Module:
        """Give every tensor, or without `recurse` those directly inside, memory on a device, with
        anything in it; gives the module. What was made on "NULL" can be loaded into then.
        """
        for tensor in (*self.parameters(recurse), *self.buffers(recurse)):
            tensor.grad = None
            become(tensor, tensor.detach().empty_like(device=device))
        return self

    def cpu(self) -> Module:
        """Every tensor on the processor; gives the module."""
        return self.to("CPU")

    def cuda(self, device: Any = None) -> Module:
        """Every tensor on the device CUDA, or the one given; gives the module."""
        return self.to(cuda_device(device))

    def type(self, dst_type: Any) -> Module:
        """Floats in a format; gives the module."""
        return self.to(dst_type)

    float, double = _floats_as("float32"), _floats_as("float64")
    half, bfloat16 = _floats_as("float16"), _floats_as("bfloat16")

    def apply(self, fn: Callable[[Module], None]) -> Module:
        """Call `fn` with every module, inner ones first; gives the module."""
        for module in reversed(list(self.modules())):
            fn(module)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients; without `set_to_none` those that there are become zeros."""
        (forget_gradients if set_to_none else clear_gradients)(self.parameters())

    # --- hooks ------------------------------------------------------------------------------------
    def register_forward_pre_hook(
        self, hook: hooks.Hook, *, prepend: bool = False, with_kwargs: bool = False
    ) -> Removable:
        """Call `hook(module, args)` before `forward`; what it gives, unless None, are the args. A
        hook `with_kwargs` gets those too, and gives both. `.remove()` of the result takes it back.
        """
        return hooks.of(self).add("before", hook, prepend, with_kwargs)

    def register_forward_hook(
        self, hook: hooks.Hook, *, prepend: bool = False, with_kwargs: bool = False,
        always_call: bool = False,
    ) -> Removable:  # fmt: skip
        """Call `hook(module, args, output)` after `forward`; what it gives, unless None, is the
        output. A hook `with_kwargs` gets those before the output.
        """
        return hooks.of(self).add("after", hook, prepend, with_kwargs, always_call)

    def register_full_backward_pre_hook(self, hook: hooks.Hook, prepend: bool = False) -> Removable:
        """Call `hook(module, grad_output)` with the gradients of the output when they are taken;
        what it gives, unless None, are the gradients that go on.
        """
        return hooks.of(self).add("down", hook, prepend)

    def register_full_backward_hook(self, hook: hooks.Hook, prepend: bool = False) -> Removable:
        """Call `hook(module, grad_input, grad_output)` with the gradients of the tensors among the
        positional arguments, None for one that has none; what it gives, unless None, goes on.
        """
        return hooks.of(self).add("up", hook, prepend)

    def register_state_dict_pre_hook(self, hook: hooks.Hook) -> Removable:
        """Call `hook(module, prefix, keep_vars)` before `state_dict`, also of a module around."""
        return hooks.of(self).add("saving", hook, False)

    def register_state_dict_post_hook(self, hook: hooks.Hook) -> Removable:
        """Call `hook(module, state_dict, prefix, local_metadata)` with what `state_dict` found, to
        be changed in place; the module's names begin with the prefix. Metadata are an empty dict.
        """
        return hooks.of(self).add("saved", hook, False)

    def register_load_state_dict_pre_hook(self, hook: hooks.Hook) -> Removable:
        """Call `hook(module, state_dict, prefix, local_metadata, strict, missing_keys,
        unexpected_keys, error_msgs)` before `load_state_dict`, with a copy of the values that may
        be changed, and lists that may be added to.
        """
        return hooks.of(self).add("loading", hook, False)

    def _register_load_state_dict_pre_hook(
        self, hook: hooks.Hook, with_module: bool = False
    ) -> Removable:
        """The name that programs know from before: the hook is not told the module."""
        told = hook if with_module else lambda _, *rest: hook(*rest)
        return self.register_load_state_dict_pre_hook(told)

    def register_load_state_dict_post_hook(self, hook: hooks.Hook) -> Removable:
        """Call `hook(module, incompatible_keys)` after `load_state_dict`, inner modules' first:
        what it leaves in the lists `missing_keys` and `unexpected_keys` is an error if `strict`.
        """
        return hooks.of(self).add("loaded", hook, False)

    # --- words ------------------------------------------------------------------------------------
    def _get_name(self) -> str:
        """What it is called in its text."""
        return type(self).__name__

    def extra_repr(self) -> str:
        """What the module was made with, as far as it is known by the same name: what has no
        default, another value, or is a float.
        """
        own = attributes(self)
        defaults = inspect.signature(type(self)).parameters
        shown = {
            name: own[name]
            for name, parameter in defaults.items()
            if isinstance(own.get(name), bool | int | float | str | tuple)
            and (isinstance(own[name], float) or not _is(own[name], parameter.default))
        }
        if isinstance(own.get("bias", ""), Tensor | None):
            shown["bias"] = own["bias"] is not None
        return ", ".join(f"{name}={v!r}" for name, v in shown.items())

    @reprlib.recursive_repr()
    def __repr__(self) -> str:
        name, extra = self._get_name(), self.extra_repr()
        lines = list[str]()
        children = [(key, repr(child)) for key, child in state.modules_inside(self, Module)]
        for text, run in itertools.groupby(children, key=lambda child: child[1]):
            keys = [key for key, _ in run]
            if len(keys) > 1 and keys[0].isdigit():
                lines.append(f"({keys[0]}-{keys[-1]}): {len(keys)} x {text}")
            else:
                lines += [f"({key}): {text}" for key in keys]
        if not lines:
            return f"{name}({extra})"
        inside = "\n".join([*([extra] if extra else []), *lines]).replace("\n", "\n  ")
        return f"{name}(\n  {inside}\n)"


# --- hooks of all modules -------------------------------------------------------------------------
def register_module_forward_pre_hook(hook: hooks.Hook) -> Removable:
    """`Module.register_forward_pre_hook` of all modules, before each one's own."""
    return _of_all().add("before", hook, False)


def register_module_forward_hook(
    hook: hooks.Hook, *, with_kwargs: bool = False, always_call: bool = False
) -> Removable:
    """`Module.register_forward_hook` of all modules, before each one's own."""
    return _of_all().add("after", hook, False, with_kwargs, always_call)


def register_module_full_backward_pre_hook(hook: hooks.Hook) -> Removable:
    """`Module.register_full_backward_pre_hook` of all modules, before each one's own."""
    return _of_all().add("down", hook, False)


def register_module_full_backward_hook(hook: hooks.Hook) -> Removable:
    """`Module.register_full_backward_hook` of all modules, before each one's own."""
    return _of_all().add("up", hook, False)


def _of_all() -> hooks.Hooks:
    if Module._everywhere is None:
        Module._everywhere = hooks.Hooks()
    return Module._everywhere


# --------------------------------------------------------------------------------------------------
def _is(value: Any, default: Any) -> bool:
    """Whether an argument is as by default, which may be one number for several axes."""
    return bool(value == default or (isinstance(value, tuple) and {*value} == {default}))


def _tell(error: Exception, module: Module, given: tuple[Any, ...]) -> None:
    """Raise an error that says so where a layer of torpor was given what is no tensor."""
    if type(module).__module__.startswith("torpor."):
        found = no_tensor(error, type(module).__name__, given)
        if found is not error:
            raise found from None


def is_own(kind: type) -> bool:
    """Whether a class is one of torpor's."""
    return kind.__module__.startswith(f"{__package__}.")
