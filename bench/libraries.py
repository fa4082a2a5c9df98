"""The contenders: how each library gets its inputs, is called, and shows what came out.

A contender is a library in one way of use. Importing this file imports none of them.
"""

from __future__ import annotations

import functools
import importlib
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from bench.workload import Arrays, Workload

Call = Callable[..., Any]


def as_tuple(value: Any) -> tuple[Any, ...]:
    """Several outputs as they are, one as a tuple of one."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


class Contender(ABC):
    """A library in one way of use. `name` is what tables show, `key` names its function in a
    workload, `module` is what has to be installed.
    """

    name: ClassVar[str]
    key: ClassVar[str]
    module: ClassVar[str]

    def available(self) -> str:
        """Why it cannot run here; empty if it can."""
        try:
            importlib.import_module(self.module)
        except ImportError:
            return f"{self.module} is not installed"
        return ""

    def function(self, workload: Workload) -> Call:
        """The workload's function for this library."""
        module = importlib.import_module(self.module)
        made = workload.functions[self.key]
        if workload.builds:
            return made(module)
        return functools.partial(made, module)

    @abstractmethod
    def arrays(self, given: Arrays) -> Sequence[Any]:
        """Inputs as this library holds them."""

    @abstractmethod
    def prepare(self, workload: Workload, inputs: Sequence[Any]) -> Call:
        """What is called with inputs again and again; it returns when the result is there."""

    @abstractmethod
    def read(self, output: Any) -> np.ndarray:
        """One output as a NumPy array, for the check; need not be quick."""

    def element(self, output: Any) -> float:
        """One element of the outputs."""
        return float(np.asarray(self.read(as_tuple(output)[0])).reshape(-1)[-1])


def computed(function: Call) -> Call:
    """The function of torpor with its results computed; they would else wait to be asked for."""

    def run(*inputs: Any) -> Any:
        outputs = as_tuple(function(*inputs))
        outputs[0].realize(*outputs[1:])
        return outputs

    return run


class Torpor(Contender):
    """Jitted; outputs are written to the same memory each time."""

    name, key, module = "torpor", "torpor", "torpor"

    def arrays(self, given: Arrays) -> Sequence[Any]:
        import torpor

        return [torpor.Tensor(array).realize() for array in given]

    def prepare(self, workload: Workload, inputs: Sequence[Any]) -> Call:
        import torpor

        function = self.function(workload)
        if workload.builds:
            return computed(torpor.jit(function))
        lazy = as_tuple(function(*inputs))
        outputs = tuple(torpor.Tensor.empty(*x.shape, dtype=x.dtype).realize() for x in lazy)

        def into(outputs: Any, *inputs: Any) -> Any:
            for output, value in zip(outputs, as_tuple(function(*inputs)), strict=True):
                output.assign(value)
            outputs[0].realize(*outputs[1:])
            return outputs

        return functools.partial(torpor.jit(into), outputs)

    def read(self, output: Any) -> np.ndarray:
        array: np.ndarray = output.detach().numpy()
        return array

    def element(self, output: Any) -> float:
        return float(as_tuple(output)[0].reshape(-1)[-1].item())


class TorporPlain(Torpor):
    """Without the jit: the graph is built and scheduled anew in each call."""

    name = "torpor plain"

    def prepare(self, workload: Workload, inputs: Sequence[Any]) -> Call:
        return computed(self.function(workload))


class Torch(Contender):
    """PyTorch as it is."""

    name, key, module = "torch", "torch", "torch"

    def arrays(self, given: Arrays) -> Sequence[Any]:
        import torch

        return [
            torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
            if array.dtype.name == "bfloat16"
            else torch.from_numpy(np.array(array))
            for array in given
        ]

    def prepare(self, workload: Workload, inputs: Sequence[Any]) -> Call:
        return self.function(workload)

    def read(self, output: Any) -> np.ndarray:
        output = output.detach()
        array: np.ndarray = (output.float() if output.is_floating_point() else output).numpy()
        return array

    def element(self, output: Any) -> float:
        return float(as_tuple(output)[0].detach().reshape(-1)[-1])


class TorchOut(Torch):
    """PyTorch, writing to the same memory each time."""

    name, key = "torch out=", "torch out="

    def prepare(self, workload: Workload, inputs: Sequence[Any]) -> Call:
        function = self.function(workload)
        return functools.partial(function, out=function(*inputs, out=None))


class TorchChannelsLast(Torch):
    """PyTorch with images and weights in the layout that its convolutions like best."""

    name, key = "torch channels last", "torch channels last"

    def arrays(self, given: Arrays) -> Sequence[Any]:
        import torch

        formats = {4: torch.channels_last, 5: torch.channels_last_3d}
        plain = super().arrays(given)
        return [
            x.contiguous(memory_format=formats.get(x.dim(), torch.contiguous_format)) for x in plain
        ]


class TorchCompiled(Torch):
    """`torch.compile`, which needs a C++ compiler."""

    name = "torch compiled"

    def available(self) -> str:
        if missing := super().available():
            return missing
        from torch._inductor.cpp_builder import get_cpp_compiler

        try:
            get_cpp_compiler()
        except Exception as error:
            return f"no C++ compiler: {type(error).__name__}"
        return ""

    def prepare(self, workload: Workload, inputs: Sequence[Any]) -> Call:
        import torch

        torch._dynamo.reset()
        function = self.function(workload)
        return torch.compile(lambda *inputs: function(*inputs), dynamic=False)


class Jax(Contender):
    """`jax.jit`."""

    name, key, module = "jax", "jax", "jax"

    def arrays(self, given: Arrays) -> Sequence[Any]:
        import jax

        return [jax.device_put(array) for array in given]

    def prepare(self, workload: Workload, inputs: Sequence[Any]) -> Call:
        import jax

        function = self.function(workload)
        compiled = function if workload.builds else jax.jit(function)
        ready = jax.block_until_ready
        return lambda *inputs: ready(compiled(*inputs))

    def read(self, output: Any) -> np.ndarray:
        return np.asarray(output)


class Numpy(Contender):
    """NumPy, writing to the same memory each time."""

    name, key, module = "numpy", "numpy", "numpy"

    def arrays(self, given: Arrays) -> Sequence[Any]:
        return given

    def prepare(self, workload: Workload, inputs: Sequence[Any]) -> Call:
        function = self.function(workload)
        return functools.partial(function, out=function(*inputs, out=None))

    def read(self, output: Any) -> np.ndarray:
        return np.asarray(output)


class Onnx(Contender):
    """ONNX Runtime; outputs are written to the same memory each time."""

    name, key, module = "onnxruntime", "onnx", "onnxruntime"

    def available(self) -> str:
        if missing := super().available():
            return missing
        try:
            importlib.import_module("onnx")
        except ImportError:
            return "onnx is not installed"
        return ""

    def arrays(self, given: Arrays) -> Sequence[Any]:
        import onnxruntime

        return [onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(x)) for x in given]

    def prepare(self, workload: Workload, inputs: Sequence[Any]) -> Call:
        import os

        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = int(os.environ.get("OMP_NUM_THREADS", "0"))
        options.inter_op_num_threads = 1
        # Its idle threads spin for long by default, which takes the core from the next contender.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        session = onnxruntime.InferenceSession(
            self.model(workload, inputs), options, providers=["CPUExecutionProvider"]
        )
        names = [x.name for x in session.get_outputs()]
        feeds = {f"x{n}": value.numpy() for n, value in enumerate(inputs)}
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(x) for x in session.run(names, feeds)]
        binding = session.io_binding()
        for name, value in zip(names, values, strict=True):
            binding.bind_ortvalue_output(name, value)

        def run(*inputs: Any) -> Any:
            for number, value in enumerate(inputs):
                binding.bind_ortvalue_input(f"x{number}", value)
            session.run_with_iobinding(binding)
            return values

        return run

    def model(self, workload: Workload, inputs: Sequence[Any]) -> bytes:
        """The serialised graph of the workload's nodes."""
        import onnx

        helper = onnx.helper
        nodes = workload.functions[self.key](helper)
        graph_inputs = [
            helper.make_tensor_value_info(
                f"x{n}", helper.np_dtype_to_tensor_dtype(value.numpy().dtype), value.shape()
            )
            for n, value in enumerate(inputs)
        ]
        ends = [name for node in nodes for name in node.output if name.startswith("y")]
        kind = graph_inputs[0].type.tensor_type.elem_type
        outputs = [helper.make_tensor_value_info(name, kind, None) for name in ends]
        graph = helper.make_graph(nodes, "workload", graph_inputs, outputs)
        opset = [helper.make_opsetid("", 20)]
        return helper.make_model(graph, opset_imports=opset, ir_version=9).SerializeToString()

    def read(self, output: Any) -> np.ndarray:
        array: np.ndarray = output.numpy()
        return array


class Tinygrad(Contender):
    """tinygrad's `TinyJit`, on its CPU device, which calls clang."""

    name, key, module = "tinygrad", "tinygrad", "tinygrad"

    def available(self) -> str:
        return super().available() or ("" if shutil.which("clang") else "it needs clang here")

    def arrays(self, given: Arrays) -> Sequence[Any]:
        from tinygrad import Tensor

        return [Tensor(np.ascontiguousarray(array)).realize() for array in given]

    def prepare(self, workload: Workload, inputs: Sequence[Any]) -> Call:
        from tinygrad import Device, TinyJit

        function = self.function(workload)
        device = Device[Device.DEFAULT]

        @TinyJit
        def jitted(*inputs: Any) -> Any:
            outputs = as_tuple(function(*inputs))
            outputs[0].realize(*outputs[1:])
            return outputs

        def run(*inputs: Any) -> Any:
            outputs = jitted(*inputs)
            device.synchronize()
            return outputs

        return run

    def read(self, output: Any) -> np.ndarray:
        array: np.ndarray = output.numpy()
        return array


OURS, PLAIN = Torpor.name, TorporPlain.name
CONTENDERS: tuple[Contender, ...] = (
    Torpor(), TorporPlain(), Torch(), TorchOut(), TorchChannelsLast(), TorchCompiled(), Jax(),
    Numpy(), Onnx(), Tinygrad(),
)  # fmt: skip
