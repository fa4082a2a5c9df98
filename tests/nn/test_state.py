"""State by dotted names, of any objects, and files of it."""

import numpy as np
import pytest

from torpor import Tensor, nn
from torpor.base.errors import DTypeError, ShapeError
from torpor.nn import state


class Plain:
    """Not a module: attributes, lists and dicts are looked through all the same."""

    def __init__(self):
        self.weight = Tensor.ones(2, requires_grad=True)
        self.parts = [Tensor.zeros(1), {"deep": Tensor.ones(1, requires_grad=True)}]
        self.again = self.weight
        self.owner = self
        self.name = "plain"


class Late(nn.Module):
    """Its own tensors are set after what is inside."""

    def __init__(self):
        self.inner = nn.Linear(1, 1)
        self.register_buffer("scale", Tensor([2.0]))
        self.shift = nn.Parameter(Tensor([1.0]))


def test_modules_have_their_own_tensors_first_as_in_pytorch():
    names = ["shift", "scale", "inner.weight", "inner.bias"]
    assert list(Late().state_dict()) == names
    assert [name for name, _ in Late().named_parameters()] == ["shift", *names[2:]]
    misfit = Late().load_state_dict({"scale": np.ones(1), "b": 1, "a": 2}, strict=False)
    assert misfit == (["shift", *names[2:]], ["b", "a"])
    with pytest.raises(
        RuntimeError, match=r"^the state does not fit:\n  Missing key\(s\): 'shift'"
    ):
        Late().load_state_dict({})
    wrong = {**Late().state_dict(), "more": np.ones(1), "scale": np.ones(3)}
    del wrong["shift"]
    with pytest.raises(RuntimeError) as error:
        Late().load_state_dict(wrong)
    assert str(error.value).splitlines()[1:] == [
        "  Missing key(s): 'shift'",
        "  Unexpected key(s): 'more'",
        "  size mismatch for scale: the model has shape (1,), the value given has (3,)",
    ]


def test_names_in_any_object():
    model = Plain()
    names = ["weight", "parts.0", "parts.1.deep", "again"]
    assert list(state.get_state_dict(model)) == names
    assert list(state.get_state_dict(model, "model")) == [f"model.{name}" for name in names]
    found = state.get_parameters(model)
    assert len(found) == 2
    assert found[0] is model.weight
    assert found[1] is model.parts[1]["deep"]


def test_nothing_is_loaded_where_something_does_not_fit():
    layer = nn.Linear(2, 2)
    before = layer.bias.numpy()
    with pytest.raises(ShapeError, match="size mismatch for weight: "):
        state.load_state_dict(layer, {"bias": np.ones(2), "weight": np.ones((3, 2))})
    with pytest.raises(KeyError, match="Unexpected key"):
        state.load_state_dict(layer, {**layer.state_dict(), "more": np.ones(1)})
    for wrong in ({"bias": np.ones(2), "weight": np.full((2, 2), "x")}, {"weight": None}):
        with pytest.raises((DTypeError, ShapeError)):
            state.load_state_dict(layer, wrong, strict=False)
    assert (layer.bias.numpy() == before).all()
    state.load_state_dict(layer, {"bias": np.ones(2)}, strict=False)
    assert layer.bias.tolist() == [1.0, 1.0]
    assert layer.bias.requires_grad
    state.load_state_dict(layer, {"bias": [2, 3]}, strict=False)
    assert layer.bias.tolist() == [2.0, 3.0]


def test_what_a_layer_counts_comes_back(tmp_path):
    layer = nn.BatchNorm1d(2)
    state.safe_save(layer.state_dict(), tmp_path / "layer.safetensors")
    layer.load_state_dict(state.safe_load(tmp_path / "layer.safetensors"))
    assert layer.num_batches_tracked.shape == ()


def test_classes_and_python_modules_hold_no_state():
    class Kind:
        shared = Tensor.ones(1)

    model = nn.Linear(1, 1)
    model.kind, model.library = Kind, nn
    assert list(model.state_dict()) == ["weight", "bias"]
