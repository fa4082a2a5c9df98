"""Workloads: named once, chosen by name, and with references that are right."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from bench import libraries
from bench.engine import expected_of, relative_error
from bench.workload import count
from bench.workloads import ALL, choose, convolution, models, steps, weights
from torpor import Tensor
from torpor.pipeline import measuring


def test_names_are_unique_and_every_workload_has_ours():
    assert len({x.name for x in ALL}) == len(ALL)
    assert all("torpor" in x.functions or "torpor" in x.notes for x in ALL)


def test_peers_that_count_have_functions():
    for workload in ALL:
        assert any(name in workload.functions for name in workload.against), workload.name


def test_choosing_by_part_of_a_name_and_by_pattern():
    assert [x.name for x in choose(["matmul/512"], quick=False)] == ["matmul/512"]
    assert {x.name for x in choose(["matmul/*-nt"], quick=False)} == {
        "matmul/1024-nt", "matmul/1x4096x4096-nt", "matmul/8x4096x4096-nt",
    }  # fmt: skip
    assert choose(["no such thing"], quick=False) == []
    quick = choose([], quick=True)
    assert quick
    assert all(x.quick for x in quick)
    assert len(quick) < len(choose([], quick=False))


@pytest.mark.parametrize(
    "layer",
    [
        convolution.Layer(4, 6, (3, 2), (7, 6), stride=2, padding=1, batch=2),
        convolution.Layer(4, 6, (3,), (9,), dilation=2, groups=2, batch=2),
        convolution.Layer(2, 3, (2, 1, 2), (3, 4, 3), padding=1, batch=1),
    ],
)
def test_references_of_convolutions_are_the_definition(layer):
    generator = np.random.default_rng(0)
    x, w = (generator.standard_normal(shape) for shape in (layer.image, layer.weight))
    image = convolution.padded(layer, x)
    expected = np.zeros(layer.result)
    each = layer.outputs // layer.groups
    for place in np.ndindex(layer.result):
        n, o, *at = place
        first = o // each * w.shape[1]
        for c, *k in np.ndindex(w.shape[1:]):
            spot = [a * layer.stride + b * layer.dilation for a, b in zip(at, k, strict=True)]
            expected[place] += image[(n, first + c, *spot)] * w[(o, c, *k)]
    assert np.allclose(convolution.forward_reference(layer, x, w), expected)
    assert layer.flops == 2 * expected.size * count(w.shape[1:])
    check_gradients(layer, x, w, generator)


def check_gradients(layer, x, w, generator):
    """The gradients' reference is the transpose of the forward one."""
    cotangent = generator.standard_normal(layer.result)
    to_image, to_weight = convolution.backward_reference(layer, x, w, cotangent)
    value = (convolution.forward_reference(layer, x, w) * cotangent).sum()
    assert np.allclose([(to_image * x).sum(), (to_weight * w).sum()], value)


def test_small_workloads_agree_with_their_references():
    import torpor

    generator = np.random.default_rng(1)
    small = [x for x in ALL if x.name.startswith("memory/") and x.name.endswith("4KB")]
    assert len(small) >= 10
    for workload in small:
        arrays = workload.inputs(generator)
        found = workload.functions["torpor"](torpor, *map(Tensor, arrays)).numpy()
        (expected,) = expected_of(workload, arrays)
        assert np.allclose(found, expected, rtol=1e-5, atol=1e-5), workload.name


def test_ours_is_jitted_writes_to_the_same_memory_and_is_computed_when_it_returns():
    (workload,) = choose(["memory/softmax-4KB"], quick=False)
    contender = libraries.Torpor()
    sets = [contender.arrays(workload.inputs(np.random.default_rng(seed))) for seed in (0, 1)]
    call = contender.prepare(workload, sets[0])
    call(*sets[0])
    with measuring() as measured:
        (first,) = call(*sets[0])
        before = first.numpy()
        (second,) = call(*sets[1])
        after = second.numpy()
    assert measured.operations == 0  # nothing was scheduled
    assert len(measured.runs) == 2
    assert not np.allclose(before, after)
    assert np.array_equal(first.numpy(), after)  # the same memory


def adam_step(weights, x, labels):
    """Loss of the three layers in NumPy, and the first matrix after one step of Adam."""
    below, values = [], x
    for number in ("0", "2", "4"):
        below.append(values)
        values = values @ weights[f"{number}.weight"].T + weights[f"{number}.bias"]
        values = values if number == "4" else np.maximum(values, 0)
    chances = np.exp(values - values.max(1, keepdims=True))
    chances /= chances.sum(1, keepdims=True)
    rows = np.arange(len(x))
    back = chances.copy()
    back[rows, labels] -= 1
    back /= len(x)
    for number, inputs in (("4", below[2]), ("2", below[1])):
        back = back @ weights[f"{number}.weight"] * (inputs > 0)
    gradient = back.T @ below[0]
    moved = weights["0.weight"] - steps.RATE * gradient / (np.abs(gradient) + 1e-8)
    return -np.log(chances[rows, labels]).mean(), moved


def test_a_training_step_is_the_textbooks():
    import torpor

    (workload,) = choose(["steps/mlp-adam-64"], quick=False)
    x, labels = workload.inputs(np.random.default_rng(2))
    names = weights.named(lambda library: models.multilayer(library.nn))
    exact = {name: value.astype(np.float64) for name, value in names.items()}
    expected = adam_step(exact, x.astype(np.float64), labels)
    step = workload.functions["torpor"](torpor)
    found = [y.numpy() for y in step(Tensor(x), Tensor(labels))]
    assert relative_error(found, [np.asarray(y) for y in expected]) < workload.tolerance


def test_weights_are_the_same_wherever_they_are_drawn():
    first, again = (weights.drawn("blocks.1.up.weight", (300, 400)) for _ in range(2))
    assert np.array_equal(first, again)
    assert abs(first.std() * 20 - 1) < 0.01
    assert len(np.unique(first[:, 0])) == 300  # rows begin at other places of what is repeated
    assert not np.array_equal(first, weights.drawn("blocks.2.up.weight", (300, 400)))
    assert weights.drawn("before.weight", (3,)).tolist() == [1.0] * 3
    assert weights.drawn("before.bias", (3,)).tolist() == [0.0] * 3


def test_without_pytorch_a_step_has_no_reference(monkeypatch):
    (workload,) = choose(["steps/mlp-adam-64"], quick=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    assert expected_of(workload, workload.inputs(np.random.default_rng(0))) is None
