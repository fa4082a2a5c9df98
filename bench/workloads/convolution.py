"""Convolutions: ResNet-50's layers, MobileNet's, 1-d, 3-d, dilated, grouped, transposed; forward,
and both gradients at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from bench.workload import Workload, count, randoms

BATCH = 8
AGAINST = ("torch", "torch channels last")


@dataclass(frozen=True)
class Layer:
    """A convolution of `inputs` to `outputs` channels over images of `sizes`."""

    inputs: int
    outputs: int
    kernel: tuple[int, ...]
    sizes: tuple[int, ...]
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    groups: int = 1
    batch: int = BATCH

    @property
    def image(self) -> tuple[int, ...]:
        return (self.batch, self.inputs, *self.sizes)

    @property
    def weight(self) -> tuple[int, ...]:
        return (self.outputs, self.inputs // self.groups, *self.kernel)

    @property
    def result(self) -> tuple[int, ...]:
        reach = (self.dilation * (k - 1) + 1 for k in self.kernel)
        sizes = (
            (size + 2 * self.padding - r) // self.stride + 1
            for size, r in zip(self.sizes, reach, strict=True)
        )
        return (self.batch, self.outputs, *sizes)

    @property
    def flops(self) -> float:
        return 2.0 * count(self.result) * count(self.weight[1:])

    @property
    def options(self) -> dict[str, Any]:
        """As PyTorch calls them."""
        return {
            "stride": self.stride, "padding": self.padding, "dilation": self.dilation,
            "groups": self.groups,
        }  # fmt: skip


# --- the answer in NumPy: one matrix product for each place of the kernel -------------------------
def windows(layer: Layer) -> Any:
    """For each place of the kernel: its index, and the slices of the padded image it meets."""
    for place in product(*map(range, layer.kernel)):
        slices = [slice(None), slice(None)]
        for at, size in zip(place, layer.result[2:], strict=True):
            first = at * layer.dilation
            slices.append(slice(first, first + layer.stride * (size - 1) + 1, layer.stride))
        yield (slice(None), slice(None), *place), tuple(slices)


def padded(layer: Layer, x: Any) -> Any:
    side = (layer.padding, layer.padding)
    return np.pad(x, ((0, 0), (0, 0), *(side for _ in layer.kernel)))


def split(layer: Layer, x: Any) -> Any:
    """[n, channels, ...] as [n, group, channel, position]."""
    return x.reshape(len(x), layer.groups, x.shape[1] // layer.groups, -1)


def filters(layer: Layer, w: Any, place: Any) -> Any:
    """The weights at a place as [group, output, input]."""
    return w[place].reshape(layer.groups, layer.outputs // layer.groups, -1)


def forward_reference(layer: Layer, x: Any, w: Any) -> Any:
    image = padded(layer, x)
    parts = (
        filters(layer, w, place) @ split(layer, image[window]) for place, window in windows(layer)
    )
    return sum(parts).reshape(layer.result)


def backward_reference(layer: Layer, x: Any, w: Any, cotangent: Any) -> Any:
    image = padded(layer, x)
    image_gradient, weight_gradient = np.zeros_like(image), np.zeros_like(w)
    back = split(layer, cotangent)
    for place, window in windows(layer):
        part = image[window]
        image_gradient[window] += (filters(layer, w, place).mT @ back).reshape(part.shape)
        found = (back @ split(layer, part).mT).sum(0)
        weight_gradient[place] = found.reshape(layer.weight[:2])
    inner = tuple(slice(layer.padding, layer.padding + size) for size in layer.sizes)
    return image_gradient[(slice(None), slice(None), *inner)], weight_gradient


# --- the libraries --------------------------------------------------------------------------------
def torch_name(layer: Layer) -> str:
    return f"conv{len(layer.kernel)}d"


def jax_convolution(jax: Any, layer: Layer, x: Any, w: Any) -> Any:
    count = len(layer.kernel)
    letters = "DHW"[-count:]
    layout = (f"NC{letters}", f"OI{letters}", f"NC{letters}")
    return jax.lax.conv_general_dilated(
        x, w, (layer.stride,) * count, [(layer.padding, layer.padding)] * count,
        rhs_dilation=(layer.dilation,) * count, feature_group_count=layer.groups,
        dimension_numbers=layout,
    )  # fmt: skip


def forward_functions(layer: Layer) -> dict[str, Any]:
    name, options = torch_name(layer), layer.options

    def ours(torpor: Any, x: Any, w: Any) -> Any:
        return getattr(x, name)(w, **options)

    def torch(torch: Any, x: Any, w: Any) -> Any:
        return getattr(torch.nn.functional, name)(x, w, **options)

    def jax(jax: Any, x: Any, w: Any) -> Any:
        return jax_convolution(jax, layer, x, w)

    def tinygrad(tinygrad: Any, x: Any, w: Any) -> Any:
        return x.conv2d(w, None, layer.groups, layer.stride, layer.dilation, layer.padding)

    def onnx(helper: Any) -> Any:
        count = len(layer.kernel)
        return [
            helper.make_node(
                "Conv", ["x0", "x1"], ["y0"], strides=[layer.stride] * count, group=layer.groups,
                dilations=[layer.dilation] * count, pads=[layer.padding] * 2 * count,
            )
        ]  # fmt: skip

    return {
        "torpor": ours, "torch": torch, "torch channels last": torch, "jax": jax,
        "tinygrad": tinygrad, "onnx": onnx,
    }  # fmt: skip


def backward_functions(layer: Layer) -> dict[str, Any]:
    name, options = torch_name(layer), layer.options
    many = [[n] * len(layer.kernel) for n in (layer.stride, layer.padding, layer.dilation)]
    none = [0] * len(layer.kernel)

    def ours(torpor: Any, x: Any, w: Any, cotangent: Any) -> Any:
        made = getattr(x, name)(w, **options)
        return made.gradient(x, w, gradient=cotangent)

    def torch(torch: Any, x: Any, w: Any, cotangent: Any) -> Any:
        return torch.ops.aten.convolution_backward(
            cotangent, x, w, None, *many, False, none, layer.groups, [True, True, False]
        )[:2]

    def jax(jax: Any, x: Any, w: Any, cotangent: Any) -> Any:
        def forward(x: Any, w: Any) -> Any:
            return jax_convolution(jax, layer, x, w)

        return jax.vjp(forward, x, w)[1](cotangent)

    return {"torpor": ours, "torch": torch, "torch channels last": torch, "jax": jax}


def transposed(layer: Layer) -> list[Workload]:
    """The transposed convolution that undoes the layer's shapes (4 by 4, stride 2, padding 1)."""
    stride, padding = layer.stride, layer.padding

    def ours(torpor: Any, x: Any, w: Any) -> Any:
        return x.conv_transpose2d(w, stride=stride, padding=padding)

    def torch(torch: Any, x: Any, w: Any) -> Any:
        return torch.nn.functional.conv_transpose2d(x, w, stride=stride, padding=padding)

    def reference(x: Any, w: Any) -> Any:
        return backward_reference(layer, np.zeros(layer.image), w, x)[0]

    def our_gradients(torpor: Any, x: Any, w: Any, cotangent: Any) -> Any:
        return ours(torpor, x, w).gradient(x, w, gradient=cotangent)

    def torch_gradients(torch: Any, x: Any, w: Any, cotangent: Any) -> Any:
        two = [[n] * 2 for n in (stride, padding, 1)]
        return torch.ops.aten.convolution_backward(
            cotangent, x, w, None, *two, True, [0, 0], 1, [True, True, False]
        )[:2]

    def gradients(x: Any, w: Any, cotangent: Any) -> Any:
        back = backward_reference(layer, cotangent, w, x)[1]
        return forward_reference(layer, cotangent, w), back

    shapes = layer.result, layer.weight, layer.image
    moved = 4.0 * count(*shapes)
    forward = Workload(
        "convolution/transposed-4x4-s2/forward",
        randoms(*shapes[:2]),
        {"torpor": ours, "torch": torch, "torch channels last": torch},
        reference,
        flops=layer.flops,
        bytes=moved,
        against=AGAINST,
    )
    backward = Workload(
        "convolution/transposed-4x4-s2/gradients",
        randoms(*shapes),
        dict.fromkeys(("torch", "torch channels last"), torch_gradients)
        | {"torpor": our_gradients},
        gradients,
        flops=2 * layer.flops,
        bytes=moved + 4.0 * count(*shapes[:2]),
        against=AGAINST,
    )
    return [forward, backward]


def pair(name: str, layer: Layer, quick: bool) -> list[Workload]:
    """The layer forward, and both of its gradients."""
    moved = 4.0 * count(layer.image, layer.weight, layer.result)
    forward = Workload(
        f"convolution/{name}/forward",
        randoms(layer.image, layer.weight),
        forward_functions(layer),
        lambda x, w: forward_reference(layer, x, w),
        flops=layer.flops,
        bytes=moved,
        against=AGAINST,
        quick=quick,
    )
    backward = Workload(
        f"convolution/{name}/gradients",
        randoms(layer.image, layer.weight, layer.result),
        backward_functions(layer),
        lambda x, w, cotangent: backward_reference(layer, x, w, cotangent),
        flops=2 * layer.flops,
        bytes=moved + 4.0 * count(layer.image, layer.weight),
        against=AGAINST,
        quick=quick,
    )
    return [forward, backward]


def flat(
    inputs: int, outputs: int, kernel: int, side: int, stride: int = 1, groups: int = 1
) -> Layer:
    """A layer of a network for square images, padded so that only the stride makes it smaller."""
    return Layer(
        inputs, outputs, (kernel, kernel), (side, side), stride, kernel // 2, groups=groups
    )


# ResNet-50's distinct layers (He et al. 2015, table 1, stride in the 3x3 as in torchvision).
RESNET = (
    (3, 64, 7, 224, 2),
    (64, 64, 1, 56, 1), (64, 64, 3, 56, 1), (64, 256, 1, 56, 1), (256, 64, 1, 56, 1),
    (256, 128, 1, 56, 1), (128, 128, 3, 56, 2), (128, 512, 1, 28, 1), (256, 512, 1, 56, 2),
    (512, 128, 1, 28, 1), (128, 128, 3, 28, 1),
    (512, 256, 1, 28, 1), (256, 256, 3, 28, 2), (256, 1024, 1, 14, 1), (512, 1024, 1, 28, 2),
    (1024, 256, 1, 14, 1), (256, 256, 3, 14, 1),
    (1024, 512, 1, 14, 1), (512, 512, 3, 14, 2), (512, 2048, 1, 7, 1), (1024, 2048, 1, 14, 2),
    (2048, 512, 1, 7, 1), (512, 512, 3, 7, 1),
)  # fmt: skip
# MobileNetV2's depthwise layers (channels, side, stride) and some of its 1x1 (Sandler et al. 2018).
DEPTHWISE = ((32, 112, 1), (96, 112, 2), (144, 56, 1), (192, 28, 1), (384, 14, 1), (960, 7, 1))
POINTWISE = ((16, 96, 112), (24, 144, 56), (192, 32, 28), (64, 384, 14), (160, 960, 7))

QUICK = ("resnet50-3x3-64-64-56", "depthwise-3x3-144-56")


def named() -> dict[str, Layer]:
    """Every layer by its name."""
    found = {}
    for inputs, outputs, kernel, side, stride in RESNET:
        step = f"-s{stride}" if stride > 1 else ""
        name = f"resnet50-{kernel}x{kernel}-{inputs}-{outputs}-{side}{step}"
        found[name] = flat(inputs, outputs, kernel, side, stride)
    for channels, side, stride in DEPTHWISE:
        step = f"-s{stride}" if stride > 1 else ""
        layer = flat(channels, channels, 3, side, stride, channels)
        found[f"depthwise-3x3-{channels}-{side}{step}"] = layer
    for inputs, outputs, side in POINTWISE:
        found[f"mobilenet-1x1-{inputs}-{outputs}-{side}"] = flat(inputs, outputs, 1, side)
    found["1d-5-64-64-1024"] = Layer(64, 64, (5,), (1024,), padding=2)
    found["3d-3-16-32-16"] = Layer(16, 32, (3, 3, 3), (16, 16, 16), padding=1, batch=2)
    found["dilated-3x3-64-64-56"] = Layer(64, 64, (3, 3), (56, 56), padding=2, dilation=2)
    found["grouped-3x3-128-128-28-g32"] = flat(128, 128, 3, 28, groups=32)
    return found


WORKLOADS = (
    *(made for name, layer in named().items() for made in pair(name, layer, name in QUICK)),
    *transposed(Layer(32, 64, (4, 4), (56, 56), 2, 1)),
)
