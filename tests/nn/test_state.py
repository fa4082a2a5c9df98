"""State by dotted names, of any objects, and files of it."""

import json
import struct

import numpy as np
import pytest

from torpor import Tensor, nn
from torpor.base.errors import ParseError, ShapeError
from torpor.nn import state


class Plain:
    """Not a module: attributes, lists and dicts are looked through all the same."""

    def __init__(self):
        self.weight = Tensor.ones(2, requires_grad=True)
        self.parts = [Tensor.zeros(1), {"deep": Tensor.ones(1, requires_grad=True)}]
        self.again = self.weight
        self.owner = self
        self.name = "plain"


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
    with pytest.raises(ShapeError, match="'weight' has shape"):
        state.load_state_dict(layer, {"bias": np.ones(2), "weight": np.ones((3, 2))})
    with pytest.raises(KeyError, match="unexpected"):
        state.load_state_dict(layer, {**layer.state_dict(), "more": np.ones(1)})
    assert (layer.bias.numpy() == before).all()
    state.load_state_dict(layer, {"bias": np.ones(2)}, strict=False)
    assert layer.bias.tolist() == [1.0, 1.0]
    assert layer.bias.requires_grad


FORMATS = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float64"]


def test_files_keep_names_shapes_formats_and_values(tmp_path):
    values = {name: Tensor([[1, 0, 3]]).cast(name) for name in FORMATS}
    values["number"], values["nothing"] = Tensor(2.5), Tensor.zeros(0, 3)
    state.safe_save(values, tmp_path / "all.safetensors", {"by": "test"})
    found = state.safe_load(tmp_path / "all.safetensors")
    assert list(found) == list(values)
    for name, tensor in values.items():
        assert (found[name].shape, found[name].dtype) == (tensor.shape, tensor.dtype)
        assert (found[name].numpy() == tensor.numpy()).all()
    assert [file.name for file in tmp_path.iterdir()] == ["all.safetensors"]


def test_what_a_layer_counts_comes_back(tmp_path):
    layer = nn.BatchNorm1d(2)
    state.safe_save(layer.state_dict(), tmp_path / "layer.safetensors")
    layer.load_state_dict(state.safe_load(tmp_path / "layer.safetensors"))
    assert layer.num_batches_tracked.shape == ()


def test_the_file_is_as_the_format_says(tmp_path):
    path = tmp_path / "one.safetensors"
    state.safe_save({"x": Tensor([[1.0, 2.0]])}, path)
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    assert json.loads(data[8 : 8 + length]) == {
        "x": {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]}
    }
    assert (np.frombuffer(data[8 + length :], "<f4") == [1, 2]).all()


def header(entry, body=b"\0" * 8):
    text = json.dumps({"x": entry}).encode()
    return struct.pack("<Q", len(text)) + text + body


@pytest.mark.parametrize(
    "data",
    [
        b"short",
        struct.pack("<Q", 1 << 40) + b"{}",
        struct.pack("<Q", 2) + b"[{",
        header({"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}),
        header({"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}),
        header({"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}),
        header({"dtype": "C64", "shape": [1], "data_offsets": [0, 8]}),
        header({"dtype": "F32", "shape": [-1, -2], "data_offsets": [0, 8]}),
        header({"dtype": "F32", "shape": [2]}),
        header([]),
        struct.pack("<Q", 2) + b"[]",
    ],
    ids=[
        "short",
        "long header",
        "no json",
        "too few",
        "beyond the end",
        "backwards",
        "format",
        "negative",
        "no place",
        "no entry",
        "a list",
    ],
)
def test_damaged_files_are_refused(data, tmp_path):
    path = tmp_path / "damaged.safetensors"
    path.write_bytes(data)
    with pytest.raises(ParseError):
        state.safe_load(path)
