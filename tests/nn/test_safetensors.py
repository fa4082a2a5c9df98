"""Safetensors files: what was saved comes back, and what is damaged is refused by name."""

import json
import os
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torpor import Tensor, dtypes
from torpor.base.errors import DTypeError, ParseError
from torpor.nn.safetensors import safe_load, safe_save

INTEGERS = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"]
FORMATS = ["bool", *INTEGERS, "float16", "bfloat16", "float32", "float64"]
NAMES = ["", " ", "a.b", 'quote" \\ \n \0', "größe", "重み", "\U0001f4a4", "x" * 5000, "dtype"]


def test_files_keep_names_shapes_formats_and_values(tmp_path):
    values = {name: Tensor([[1, 0, 3]]).cast(name) for name in FORMATS}
    values["number"], values["nothing"] = Tensor(2.5), Tensor.zeros(0, 3)
    values["more nothing"] = Tensor.zeros(2, 0, 2**40)
    safe_save(values, tmp_path / "all.safetensors", {"by": "test"})
    found = safe_load(tmp_path / "all.safetensors")
    assert list(found) == list(values)
    for name, tensor in values.items():
        assert (found[name].shape, found[name].dtype) == (tensor.shape, tensor.dtype)
        assert (found[name].numpy() == tensor.numpy()).all()
    assert [file.name for file in tmp_path.iterdir()] == ["all.safetensors"]


def test_odd_names_come_back_and_no_tensors_too(tmp_path):
    path = tmp_path / "odd.safetensors"
    safe_save({name: Tensor([n]) for n, name in enumerate(NAMES)}, str(path), {"größe": "重"})
    assert [(name, t.item()) for name, t in safe_load(str(path)).items()] == [
        (name, n) for n, name in enumerate(NAMES)
    ]
    safe_save({}, path)
    assert safe_load(path) == {}


def test_the_file_is_as_the_format_says(tmp_path):
    path = tmp_path / "one.safetensors"
    safe_save({"x": Tensor([[1.0, 2.0]])}, path)
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    assert json.loads(data[8 : 8 + length]) == {
        "x": {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]}
    }
    assert (np.frombuffer(data[8 + length :], "<f4") == [1, 2]).all()


@pytest.mark.parametrize(
    ("values", "metadata", "words"),
    [
        ({1: Tensor([1])}, None, "named by a text, not 1"),
        ({"half \ud800": Tensor([1])}, None, "named by a text"),
        ({"__metadata__": Tensor([1])}, None, "the format's own name"),
        ({"x": [1.0]}, None, "'x' is a list"),
        ({"x": Tensor([1])}, {"epoch": 3}, "texts by name, got 'epoch': 3"),
    ],
)
def test_what_the_format_cannot_hold_is_refused(values, metadata, words, tmp_path):
    path = tmp_path / "old.safetensors"
    path.write_bytes(b"kept")
    with pytest.raises((DTypeError, ParseError), match=words):
        safe_save(values, path, metadata)
    assert path.read_bytes() == b"kept"


def test_a_link_is_followed_and_what_is_no_file_stays(tmp_path):
    safe_save({"x": Tensor([1])}, tmp_path / "file")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    safe_save({"y": Tensor([2])}, tmp_path / "link")
    assert list(safe_load(tmp_path / "file")) == ["y"]
    for place in (tmp_path, os.devnull):
        with pytest.raises(FileExistsError, match="no ordinary file"):
            safe_save({"x": Tensor([1])}, place)
    assert sorted(os.listdir(tmp_path)) == ["file", "link"]


# --- damaged files --------------------------------------------------------------------------------
def file_of(header, body=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def entry(dtype="F32", shape=(2,), places=(0, 8), **more):
    return {"dtype": dtype, "shape": shape, "data_offsets": places, **more}


def one(*fields):
    return file_of({"x": entry(*fields)}, bytes(8))


def two(first, second):
    return file_of({"x": entry("U8", *first), "y": entry("U8", *second)}, bytes(8))


DAMAGED = {
    "nothing": (b"", "0 bytes"),
    "short": (b"short", "5 bytes"),
    "header beyond the end": (struct.pack("<Q", 1 << 40) + b"{}", "header of 1099511627776"),
    "largest header": (b"\xff" * 8 + b"{}", "header of 18446744073709551615"),
    "no json": (file_of(b"[{"), "header is damaged"),
    "no text": (file_of(b'{"\xff": 1}'), "header is damaged"),
    "utf-16": (file_of("{}".encode("utf-16")), "header is damaged"),
    "more than json": (file_of(b"{}{}"), "header is damaged"),
    "a list": (file_of([]), "header is damaged"),
    "deep": (file_of(b'{"x":' * 200_000), "nested too deep"),
    "deep in an entry": (file_of(b'{"x":' + b"[" * 900 + b"]" * 900 + b"}"), "damaged entry"),
    "twice": (file_of(b'{"x":1,"x":2}'), "'x' stands there twice"),
    "metadata is a list": (file_of({"__metadata__": []}), "texts by name"),
    "metadata has a number": (file_of({"__metadata__": {"epoch": 1}}), "texts by name"),
    "entry is a list": (file_of({"x": []}), "damaged entry"),
    "entry is empty": (file_of({"x": {}}), "format None"),
    "format is a list": (one(["F32"]), "which torpor does not have"),
    "format is unknown": (one("X64", [1]), "'X64', which torpor does not have"),
    "format is nothing": (one(None), "format None"),
    "shape is a bool": (one("F32", True), "damaged shape: True"),
    "shape is a text": (one("F32", "2"), "damaged shape"),
    "size is a bool": (one("F32", [True, 2]), "damaged shape"),
    "size is a float": (one("F32", [2.0]), "damaged shape"),
    "size is infinite": (one("F32", [float("inf")]), "Infinity is no number"),
    "size is NaN": (one("F32", [float("nan")]), "NaN is no number"),
    "size is negative": (one("F32", [-1, -2]), "damaged shape"),
    "size is a list": (one("F32", [[2]]), "damaged shape"),
    "size is huge": (one("F32", [10**4000]), "does not fit float32 of shape"),
    "digits": (file_of(b'{"x":{"shape":[' + b"9" * 5000 + b"]}}"), "header is damaged"),
    "axes": (one("F32", [1] * 100 + [2]), "damaged shape"),
    "huge beside 0": (file_of({"x": entry("U8", [0, 10**30], [0, 0])}), "shape that no array has"),
    "wraps to 8": (one("U8", [2**63 + 4, 2]), "does not fit"),
    "too few": (one("F32", [3]), "does not fit"),
    "backwards": (one("F32", [2], [8, 0]), "does not fit"),
    "one place": (one("F32", [2], [0]), "damaged place"),
    "three places": (one("F32", [2], [0, 4, 8]), "damaged place"),
    "place is a float": (one("F32", [2], [0.0, 8.0]), "damaged place"),
    "place is a bool": (file_of({"x": entry("U8", [1], [0, True])}, b"1"), "damaged place"),
    "place is an object": (one("F32", [2], {"0": 0, "1": 8}), "damaged place"),
    "beyond the end": (one("F32", [4], [0, 16]), "16 bytes, but 8 follow"),
    "not at the start": (one("F32", [1], [4, 8]), "'x' at byte 4 leaves a hole"),
    "data left over": (one("F32", [1], [0, 4]), "4 bytes, but 8 follow"),
    "hole": (two(([3], [0, 3]), ([4], [4, 8])), "'y' at byte 4 leaves a hole behind what ends"),
    "overlap": (two(([5], [0, 5]), ([4], [4, 8])), "'y' at byte 4 lies over what ends at byte 5"),
    "same place": (two(([8], [0, 8]), ([8], [0, 8])), "'y' at byte 0 lies over"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_files_are_refused(name, tmp_path):
    data, words = DAMAGED[name]
    path = tmp_path / "damaged.safetensors"
    path.write_bytes(data)
    with pytest.raises(ParseError, match=words) as caught:
        safe_load(path)
    assert "damaged.safetensors" in str(caught.value)
    assert len(str(caught.value)) < 500


def test_every_shortening_of_a_file_is_refused(tmp_path):
    path = tmp_path / "cut.safetensors"
    safe_save({"x": Tensor([1.0, 2.0]), "y": Tensor([True])}, path)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(ParseError, match=r"cut\.safetensors"):
            safe_load(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(ParseError, match="but 10 follow"):
        safe_load(path)


def test_order_in_the_header_and_in_the_data_may_differ(tmp_path):
    path = tmp_path / "order.safetensors"
    fields = {"late": entry("U8", [2], [2, 4]), "none": entry("F64", [0], [2, 2])}
    path.write_bytes(file_of({**fields, "soon": entry("U8", [2], [0, 2], more=1)}, b"\1\2\3\4"))
    found = {name: tensor.tolist() for name, tensor in safe_load(path).items()}
    assert found == {"late": [3, 4], "none": [], "soon": [1, 2]}


NUMBERS = st.one_of(st.integers(-1, 9), st.integers(), st.booleans(), st.floats(), st.none())
ANY = st.recursive(
    NUMBERS | st.sampled_from([*"FUI", "F32", "U8", "BOOL", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=5,
)
NEARLY = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["U8", "BOOL", "F16", "F32"]) | ANY,
        "shape": st.lists(st.integers(0, 4), max_size=2) | ANY,
        "data_offsets": st.tuples(st.integers(0, 4), st.integers(0, 8)) | ANY,
    }
)


def total(path):
    """Bytes of all tensors, or None where the file is refused, by its name."""
    try:
        return sum(tensor.nbytes for tensor in safe_load(path).values())
    except ParseError as error:
        return None if path.name in str(error) else -1


@settings(max_examples=150, deadline=None)
@given(
    header=st.dictionaries(st.sampled_from(["x", "y", "__metadata__"]), NEARLY | ANY) | ANY,
    body=st.binary(max_size=8),
)
def test_any_header_is_read_or_refused(header, body, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "any.safetensors"
    path.write_bytes(file_of(header, body))
    assert total(path) in (None, len(body))


@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=100), length=st.integers(0, 120))
def test_any_bytes_are_read_or_refused(data, length, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "bytes.safetensors"
    path.write_bytes(struct.pack("<Q", length) + data)
    assert total(path) in (None, 0)


def test_complex_numbers_come_back(tmp_path):
    safe_save({"z": Tensor([[1 + 2j, 3j]])}, tmp_path / "z")
    made = safe_load(tmp_path / "z")["z"]
    assert made.dtype.name == "complex64" and made.tolist() == [[1 + 2j, 3j]]


@pytest.mark.parametrize("dtype", [dtypes.float8_e4m3fn, dtypes.float8_e5m2], ids=str)
def test_floats_of_8_bits_come_back(dtype, tmp_path):
    bits = Tensor(np.arange(256, dtype=np.uint8))
    safe_save({"x": bits.view(dtype)}, tmp_path / "a")
    found = safe_load(tmp_path / "a")["x"]
    assert found.dtype is dtype and found.view("uint8").tolist() == bits.tolist()


def test_a_format_that_such_files_do_not_have(tmp_path):
    with pytest.raises(DTypeError, match=r"hold no dtypes.int4, which 'x' has"):
        safe_save({"x": Tensor([1, -2]).to(dtypes.int4)}, tmp_path / "a")
    assert not (tmp_path / "a").exists()
