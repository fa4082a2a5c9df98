"""What an import and a first value bring along: no more than they need."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SAYING = """
import json, sys
{}
print(json.dumps(sorted(sys.modules)))
"""
SUM = """
from torpor import Tensor
assert (Tensor([1.0, 2.0]) + Tensor([3.0, 4.0])).tolist() == [4.0, 6.0]
"""


def modules_after(program: str, cache: Path) -> set[str]:
    """The modules that a fresh process has imported at the end of a program."""
    variables = {**os.environ, "TORPOR_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", SAYING.format(program)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=variables)
    return set(json.loads(done.stdout))


def among(modules: set[str], *roots: str) -> list[str]:
    """Those of the modules that belong to these packages."""
    return sorted(m for m in modules if any(m == r or m.startswith(f"{r}.") for r in roots))


def test_tensors_are_built_without_the_compiler(tmp_path):
    program = "from torpor import Tensor\ny = (Tensor.ones(4, 4) @ Tensor.ones(4, 4)).relu().sum(1)"
    found = modules_after(program, tmp_path)
    rooms = [f"torpor.{room}" for room in ("schedule", "rules", "kernel", "source", "pipeline")]
    assert among(found, *rooms) == []
    assert among(found, "rich", "importlib.metadata", "email", "tempfile") == []


def test_what_is_on_the_disk_needs_no_compiler(tmp_path):
    rooms = [f"torpor.{room}" for room in ("kernel", "source", "rules", "view", "graph.rules")]
    slow = ("rich", "subprocess", "torpor.pipeline.planning", "torpor.pipeline.tuner")
    assert "torpor.source.llvm" in modules_after(SUM, tmp_path)
    assert among(modules_after(SUM, tmp_path), *slow, *rooms) == []


def test_sizes_are_simplified_though_nothing_has_been_computed(tmp_path):
    program = """
from torpor import Tensor, Variable
n = Variable("n", 1, 8)
x = Tensor.ones(8)[:n].reshape(1, n).expand(2, n).reshape(2 * n)
assert (x.shape[0] - 2 * n).simplify().render() == "0", x.shape
assert x.shape[0].render() == "(n*2)", x.shape[0].render()
"""
    assert "torpor.rules" in modules_after(program, tmp_path)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("torpor.autograd.functional", "torpor.tensor.derivatives"),
        ("torpor.special", "torpor.tensor.special_names"),
        ("torpor.linalg", "torpor.tensor.linalg"),
        ("torpor.fft", "torpor.tensor.fft"),
        ("torpor.distributions.families", "torpor.nn.distributions.families"),
        ("torpor.optim.lr_scheduler", "torpor.nn.optim.lr_scheduler"),
        ("torpor.nn.functional", "torpor.nn.functional"),
        ("torpor.nn.parameter", "torpor.nn"),
        ("torpor.nn.modules.linear", "torpor.nn"),
        ("torpor.nn.modules.transformer", "torpor.nn.transformer"),
        ("torpor.distributions.normal", "torpor.nn.distributions"),
        ("torpor.distributions.transforms", "torpor.nn.distributions"),
        ("torpor.optim.adam", "torpor.nn.optim"),
        ("torpor.autograd.function", "torpor.tensor.autograd"),
    ],
)
def test_what_is_elsewhere_is_imported_once(name, place):
    found = importlib.import_module(name)
    assert found is importlib.import_module(place) and found.__name__ == place
    with pytest.raises(ModuleNotFoundError, match=name):
        importlib.import_module(f"{name}.nothing")


@pytest.mark.parametrize(
    ("name", "thing"),
    [
        ("nn.parameter", "Parameter"),
        ("nn.modules", "batchnorm.BatchNorm2d"),
        ("nn.utils.clip_grad", "clip_grad_norm_"),
        ("nn.data.dataloader", "default_collate"),
        ("optim.adam", "Adam"),
        ("distributions.kl", "kl_divergence"),
        ("distributions.normal", "Normal"),
        ("autograd.function", "Function"),
    ],
)
def test_modules_inside_are_attributes_without_an_import(name, thing, tmp_path):
    room = name.rpartition(".")[0]
    last = thing.rpartition(".")[2]
    program = f"import torpor\nassert torpor.{name}.{thing} is torpor.{room}.{last}"
    modules_after(program, tmp_path)


@pytest.mark.parametrize("room", ["nn.utils", "nn.data"])
def test_rooms_say_what_they_have_instead_of_a_missing_name(room):
    with pytest.raises(AttributeError, match=f"torpor.{room} has no 'nothing'"):
        _ = importlib.import_module(f"torpor.{room}").nothing
