"""Whole programs: the same for every library, and tables of what was measured."""

from __future__ import annotations

import numpy as np
import pytest

import torpor
from bench import steps
from bench.programs import INPUTS, LARGE, SMALL, WHAT, functions, modules

VALUES = {"first": 2.0, "second": 0.03, "early": 0.04, "steady": 0.02, "kernels": 7.0}
MEMORY = {"imported": 40.0, "peak": 120.0, "end": 100.0}


def shapes(model: torpor.nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: parameter.shape for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_the_transformers_of_jax_have_the_weights_of_modules(size):
    assert functions.language_shapes(size) == shapes(modules.language(torpor, size))


def test_every_program_has_inputs_for_every_library():
    assert INPUTS.keys() == WHAT.keys()
    for program, draw in INPUTS.items():
        first, second = (draw(np.random.default_rng(0)) for _ in range(2))
        assert all(np.array_equal(*pair) for pair in zip(first, second, strict=True))
        assert callable(getattr(modules, program)) and callable(getattr(functions, program))


def test_a_step_of_the_small_network_lowers_its_loss():
    losses = steps.answers("torpor", "mlp")
    assert losses[2] < losses[0] and losses[3] < losses[1]  # two sets of inputs take turns


def test_tables_say_what_was_measured():
    ours, others = {**VALUES, **MEMORY}, {**VALUES, **MEMORY, "steady": 0.03, "peak": 240.0}
    text = steps.tables({"mlp": {"torpor": ours, "warm": ours, "torch": others}})
    assert f"| {WHAT['mlp']} | 2.00 s / 30.00 ms / 40.00 ms |" in text
    assert "| 2.00 s / 30.00 ms | 1.50 |" in text
    assert "| mlp | 40 / 120 / 100 | 40 / 120 / 100 | 40 / 240 / 100 |" in text
