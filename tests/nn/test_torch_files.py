"""Files of PyTorch: both of its forms as it wrote them, and what is refused."""

import base64
import io
import os
import pickle
import zipfile
import zlib
from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import torpor
from torpor import Tensor, dtypes, nn
from torpor.base.errors import DTypeError, ParseError
from torpor.nn.state import torch_load

# {"w": arange(6.0).reshape(2, 3), "t": w.T, "n": [1, 2.5, "a"], "p": Parameter([1.5, -2]),
#  "h": bfloat16 [1.5], "m": Linear(1, 1).state_dict() with weight 3 and bias 4}, by PyTorch 2.13
ZIPPED = (
    "eNqtVs9v21Qcf7ZTJ3MhbcePdh0rv8GFNrXjJE26rgne8A4+0JkfipBQ5CamtnCTfu2XTqBVqoRaqMQB/gHEjT9hR3"
    "rbZZdNHJEmxIHtxJUDB9577jLbUxq2YuX5+cf7/Hjf931fZ90UMgjlcuixYxKdRXbQdr0dZ6ljY7uw/YVv6Hn0aeLY"
    "43cByU2OAK4D18Y9gii0+tjzQ6kVOBt9z++0sNMNe0FrpygBL8vNLBkckpH2pgNCBJEMv2fjD6OHEmQYoQJjTYH07e"
    "0+iKaIIXvNRCZvCgeQMwWTO4Azh+12z/edNvZ63VD6IOg4gdO54rWxBNK8BeMYnrHgWcaGIe8SdVdwM+6Yy/gmKJ9g"
    "8gcwaXKUdurQpbCzGJ6z4HkG68ILn8GLssldbWSiwLDHNkw77GIbZobMetsO7C0HO4EE5x4qM4gKs0Sfx3CezWcfXj"
    "K5fbgQac9heNmCV75lN69+A69Z8DpDufBGxHIcMZ2FTK0MgvYmG1aEtwg5h+FtSk54ZXqaj8jfwfCuBQts4BYssmcF"
    "uSnS1XO8TRfDUsKpBkpEpjIyGvJi1GkRYQlD2YJKk4Zmw7NDWE7gS1CN8LVjMyv0dDHCrmK4ZMFafxfqzTNkcIsEy6"
    "aZBg32/r0mjTbou3CZpcyOE4RkmeGKyYVhuNEvrJvZ3NULi/M3eIRoWx+ay9OoPsjlwue9YMvGrWM6Q7+YSuknOlRq"
    "4uZfv31Np0vbcBOzaPmRieP8b9m+t9ndcrrY0LWn8VEpUQP16/CABADxJxqYikVh40vs9Oh2OeX8fQ9j36Ee9i/9cY"
    "4mkniihzxaS1SVJcXQV05hIGLdq5NTg/xI2yPtpwZ1NP39nz/MkBczIxwtJB2phi6j/65/RLWPqN7Kwr3bVCA3Qm81"
    "qVc09OpTR+CoTpW/u//+6uj1zyM9qawZ+tppFp/Nv8FifXjn959pEciMcNBIOigZ+io6nf4e078lnvdH60/EdsD/s/"
    "81iarf+XHz49Hxn0PFRwWATT90Ao9UgK9s+v1qeR1DLzyhGUUpl9WaolbLWlHRyjVlubqsKJVSrajWSpWKVlOqlYpa"
    "rVGX/9y7MS8THzJzyVGzA5/xOjr5mPP0/4A0Ol4ApxPI2zwaVnnTJPEiNpsguSagEypnmideiKYSPHdjPIMCmIbHq0"
    "Y+Af8kg1K1K42NV4Ak9n4aq6ax8T2cxDbHUthiGhvffUns3TRWS2PjOyeJ/UhMYUtpbDzvJxLYX2PYIesdT8e5BNjK"
    "ohEbZd0UxYWH20pYHCDHU/0vfNT/nY16gmNXN6XoPvpij4kRZpyNj8b+C9P0edw="
)
OLDER = (
    "eNp1U8lu1EAQ9TKZEENC2Alr2B2WwTOZlS0mhHCw2MzFl8hyPK3YyLHn2T1BII00l4SEb+DAkc/I7/AJSBzobk8CCK"
    "cP5erq6vdeVZeHyhct+vV1+efs++9vZipD5eUPldkBJN2ZliSplyY08ZPI3SBpFiYxZJbgTLKTKKQ0Ii6Ju6EXQ9l2"
    "NBakH3vEzcJPJIM6QEl3xlgwC5KUYsxSHJXtwpiibJWcEsdI4jWMW6V+f49TZtEPkH2apH5Qcfs0jDLNTclqP4y6Li"
    "VxlqTuRk2DouvOOAdnmd4agZpf0ZajxKPv8qCGkjPFcjr1VqNq1KutVqdaMzAmdPi9PtNRfkUx/taSLMVSt3DIUi15"
    "CxM7Pis5Ij5lFWfa67RLUtJdCn2qQZuzcZjiiI1JIZZiKmBaAjUo5Doa5BzTnEO1lC0cs2ROdXwn4FAnKE7aOCWgYp"
    "xewRndkl+YvDlsibCHs0Q4Pcwc0Jeel3rrhJJUw7n/1BidRmO+2W4bBs4zNQpTc0FUvImLlryJS7mSyxSzNq5si83V"
    "z7hm47qgDXAjxxx1eFG0uNrcb/LNf6hqNaPTNHCLUcmMSudUjGWOm9s51R2KuzbuCfR1VETsvu6U+duTcC2gMIqrqL"
    "XqdQPVEXRNQPMHm88/9Ry+QdG00RITthp6GdoHoTXadXRGaA9GQh9y8yhHekzxxMZCfwDTmWBXXdZkr+tRD0/F+aLD"
    "XwnPBlgSw7j3kzy35CzLVvlUr/CpLuiPXFSZUiRQLXrJ4sEmFTkfHGl3Yc+TJNP84w9NZd/fXeCmLP29hjxm8js8V5"
    "K+mb8BG+ACCw=="
)


def file_of(text, path):
    path.write_bytes(zlib.decompress(base64.b64decode(text)))
    return path


@pytest.mark.parametrize("text", [ZIPPED, OLDER])
def test_what_pytorch_wrote(text, tmp_path):
    found = torpor.load(file_of(text, tmp_path / "a.pt"))
    assert found["w"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert found["t"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert found["n"] == [1, 2.5, "a"]
    assert found["p"].tolist() == [1.5, -2] and found["p"].requires_grad
    assert found["h"].tolist() == [1.5] and found["h"].dtype == dtypes.bfloat16
    layer = nn.Linear(1, 1)
    layer.load_state_dict(found["m"])
    assert layer(Tensor([[2.0]])).item() == 10


FORMATS = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
    "bfloat16", "float32", "float64", "complex64", "complex128",
]  # fmt: skip


def test_what_was_saved_comes_back(tmp_path):
    values = {name: Tensor([[1, 0, 3]]).cast(name) for name in FORMATS}
    values |= {"single": Tensor(2.5), "nothing": Tensor.zeros(0, 3), "view": Tensor.eye(3)[1:].T}
    shared = Tensor([1.0, 2.0], requires_grad=True)
    state = {"tensors": values, "tied": [shared, shared], "format": dtypes.float32}
    torpor.save(state, tmp_path / "a.pt")
    found = torpor.load(tmp_path / "a.pt")
    for name, tensor in values.items():
        again = found["tensors"][name]
        assert (again.shape, again.dtype) == (tensor.shape, tensor.dtype)
        assert (again.numpy() == tensor.numpy()).all()
    assert found["tied"][0] is found["tied"][1] and found["tied"][0].requires_grad
    assert found["format"] == dtypes.float32


LEAVES = st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.text() | st.floats()


@given(st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
@settings(max_examples=60, deadline=None)
def test_plain_values_are_what_pickle_reads(tmp_path_factory, value):
    path = tmp_path_factory.mktemp("plain") / "a.pt"
    torpor.save(value, path)
    with zipfile.ZipFile(path) as archive:
        assert repr(pickle.loads(archive.read("archive/data.pkl"))) == repr(value)
    assert repr(torpor.load(path)) == repr(value)


def test_a_run_goes_on_to_the_bit(tmp_path):
    def training():
        torpor.manual_seed(1)
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 1))
        return model, nn.optim.Adam(model.parameters())

    def steps(model, optimiser, count):
        for _ in range(count):
            optimiser.zero_grad()
            loss = model(Tensor(np.sin(np.arange(6, dtype="f4").reshape(2, 3)))).square().mean()
            loss.backward()
            optimiser.step()
        return [one.tolist() for one in model.state_dict().values()]

    model, optimiser = training()
    steps(model, optimiser, 3)
    parts = {"model": model.state_dict(), "rule": optimiser.state_dict()}
    torpor.save(parts | {"random": torpor.get_rng_state()}, tmp_path / "run.pt")
    expected = steps(model, optimiser, 3)
    other, rule = training()
    found = torpor.load(tmp_path / "run.pt")
    other.load_state_dict(found["model"])
    rule.load_state_dict(found["rule"])
    torpor.set_rng_state(found["random"])
    assert steps(other, rule, 3) == expected


class Evil:
    def __reduce__(self):
        return os.system, ("exit 1",)


class Builder:
    """Sets an attribute of a format."""

    def __reduce__(self):
        return getattr, (dtypes, "float32")


def zipped(path, data, **others):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", data)
        for name, text in others.items():
            archive.writestr(f"archive/{name}", text)
    return path


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (pickle.dumps(Evil(), 2), r"system, whose code is not executed"),
        (pickle.dumps(Builder(), 2), r"getattr, whose code is not executed"),
        (b"\x80\x02ctorch\nfloat32\n}X\x04\x00\x00\x00bitsK\x01sb.", "sets attributes"),
        (b"\x80\x02(]", "damaged"),
        (b"", "damaged"),
        (b"\x80\x02K\x01Q.", "refers to 1"),
        (b"\x80\x02ctorch.nn.modules.linear\nLinear\n.", "Linear, whose code"),
    ],
)
def test_what_is_refused(data, text, tmp_path):
    with pytest.raises(ParseError, match=text):
        torch_load(zipped(tmp_path / "a.pt", data))


def test_tensors_stay_within_their_memory(tmp_path):
    torpor.save({"x": Tensor([1.0, 2.0])}, tmp_path / "a.pt")
    with zipfile.ZipFile(tmp_path / "a.pt") as archive:
        data = archive.read("archive/data.pkl")
    for short in ({"data/0": b"1234"}, {"data/0": b"12345"}, {}):
        with pytest.raises(ParseError, match=r"beyond its memory|within a number|damaged"):
            torch_load(zipped(tmp_path / "b.pt", data, **short))


@pytest.mark.parametrize("text", [ZIPPED, OLDER])
def test_files_that_end_early(text, tmp_path):
    whole = file_of(text, tmp_path / "a.pt").read_bytes()
    for size in (2, 20, len(whole) // 2, len(whole) - 3):
        (tmp_path / "b.pt").write_bytes(whole[:size])
        with pytest.raises(ParseError):
            torch_load(tmp_path / "b.pt")


@pytest.mark.parametrize("wrong", [object(), {"x": range(2)}, nn.Linear(1, 1), frozenset()])
def test_what_cannot_be_saved(wrong, tmp_path):
    with pytest.raises(DTypeError, match="save takes"):
        torpor.save(wrong, tmp_path / "a.pt")
    nested = []
    nested.append(nested)
    torpor.save(OrderedDict(loop=nested), tmp_path / "a.pt")  # as pickle writes it
    found = torpor.load(tmp_path / "a.pt")
    assert found["loop"][0] is found["loop"]


@pytest.mark.parametrize("dtype", [dtypes.float8_e4m3fn, dtypes.float8_e5m2], ids=str)
def test_floats_of_8_bits_come_back(dtype, tmp_path):
    torpor.save({"x": Tensor([[0.3, -448.0]]).cast(dtype)}, tmp_path / "a.pt")
    found = torpor.load(tmp_path / "a.pt")["x"]
    assert found.dtype is dtype and found.tolist() == Tensor([[0.3, -448.0]]).cast(dtype).tolist()


def test_arrays_of_numpy_are_loaded(tmp_path):
    given = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b.c": np.array(3)}
    np.savez(tmp_path / "many.npz", **given)
    np.save(tmp_path / "one.npy", given["a"])
    found = torpor.load(tmp_path / "many.npz")
    assert [*found] == ["a", "b.c"] and found["b.c"].item() == 3
    assert (found["a"].numpy() == given["a"]).all()
    assert (torpor.load(tmp_path / "one.npy").numpy() == given["a"]).all()
    np.save(tmp_path / "code.npy", np.array([print]), allow_pickle=True)
    with pytest.raises(ParseError, match="cannot be read"):
        torpor.load(tmp_path / "code.npy")


def test_tensors_are_loaded_to_the_device_that_is_asked_for(tmp_path):
    for name in ("a.pt", "a.npz", "a.safetensors"):
        path = tmp_path / name
        if name == "a.npz":
            np.savez(path, w=np.float32([1, 2]))
        elif name == "a.pt":
            torpor.save({"w": Tensor([1.0, 2.0])}, path)
        else:
            torpor.nn.state.safe_save({"w": Tensor([1.0, 2.0])}, path)
        found = torpor.load(path, map_location="CPU:1", weights_only=False)["w"]
        assert (found.device, found.tolist()) == ("CPU:1", [1, 2])


def test_open_files_are_read_and_written(tmp_path):
    state = {"w": Tensor([[1.0, 2.0]]), "epoch": 3}
    held = io.BytesIO()
    torpor.save(state, held)
    held.seek(0)
    again = torpor.load(held)
    assert again["epoch"] == 3 and again["w"].tolist() == [[1.0, 2.0]]
    with (tmp_path / "a.pt").open("wb") as file:
        torpor.save(state, file)
    with (tmp_path / "a.pt").open("rb") as file:
        assert torpor.load(file)["w"].tolist() == [[1.0, 2.0]]
    arrays = io.BytesIO()
    np.savez(arrays, x=np.arange(3))
    assert torpor.load(io.BytesIO(arrays.getvalue()))["x"].tolist() == [0, 1, 2]
    with pytest.raises(ParseError, match="the open file"):
        torpor.load(io.BytesIO(held.getvalue()[:50]))


def test_formats_that_the_older_form_holds_as_bytes(tmp_path):
    torch = pytest.importorskip("torch")
    given = {"h": torch.tensor([0.5, -2.0]).to(torch.float8_e4m3fn),
             "u": torch.tensor([1, 700]).to(torch.uint16), "f": torch.tensor([1.5])}  # fmt: skip
    torch.save(given, tmp_path / "a.pth", _use_new_zipfile_serialization=False)
    found = torpor.load(tmp_path / "a.pth")
    assert found["h"].dtype == dtypes.float8_e4m3fn and found["h"].float().tolist() == [0.5, -2]
    assert found["u"].tolist() == [1, 700] and found["f"].tolist() == [1.5]


@pytest.mark.parametrize("dtype", [dtypes.int4, dtypes.uint4], ids=str)
def test_integers_of_4_bits_come_back(dtype, tmp_path):
    numbers = Tensor([[1, 2, 3], [7, 4, 5]]).to(dtype)
    torpor.save({"x": numbers, "turned": numbers.T}, tmp_path / "a.pt")
    found = torpor.load(tmp_path / "a.pt")
    assert found["x"].dtype is dtype and found["x"].tolist() == [[1, 2, 3], [7, 4, 5]]
    assert found["turned"].tolist() == [[1, 7], [2, 4], [3, 5]]


def test_a_pickle_of_any_protocol_is_called_one(tmp_path):
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        (tmp_path / "a.pkl").write_bytes(pickle.dumps({"a": 1}, protocol))
        with pytest.raises(ParseError, match="no file of PyTorch's"):
            torpor.load(tmp_path / "a.pkl")


PLAIN = {"set": {1, "b"}, "none": set(), "complex": 1 - 2j, "bytes": b"a\xff", b"": bytearray(b"b")}


def test_sets_complex_numbers_and_bytes_come_back(tmp_path):
    torpor.save(PLAIN, tmp_path / "a.pt")
    found = torpor.load(tmp_path / "a.pt")
    assert found == PLAIN and type(found[b""]) is bytearray


@pytest.mark.parametrize("zipped", [True, False])
def test_pytorch_reads_and_writes_them_alike(zipped, tmp_path):
    torch = pytest.importorskip("torch")
    torpor.save(PLAIN, tmp_path / "a.pt")
    assert torch.load(tmp_path / "a.pt") == PLAIN
    torch.save(PLAIN, tmp_path / "a.pt", _use_new_zipfile_serialization=zipped)
    assert torpor.load(tmp_path / "a.pt") == PLAIN


def test_bytes_of_a_number_are_refused(tmp_path):
    """Which would be that many zeros."""

    class Large:
        def __reduce__(self):
            return bytearray, (10,)

    with zipfile.ZipFile(tmp_path / "a.pt", "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Large(), 2))
    with pytest.raises(ParseError, match="damaged"):
        torpor.load(tmp_path / "a.pt")


def test_words_of_pytorch_for_files(tmp_path):
    path = tmp_path / "x.pt"
    torpor.save({"x": Tensor([1.0])}, f=path, pickle_protocol=2)
    assert torpor.load(f=path, map_location="cpu", weights_only=True)["x"].tolist() == [1.0]


@pytest.mark.parametrize("zipped", [True, False])
def test_tensors_of_one_memory_share_it_here_too(zipped, tmp_path):
    torch = pytest.importorskip("torch")
    path = tmp_path / "tied.pt"
    weight, number = torch.arange(6.0).reshape(2, 3), torch.tensor(1)
    written = {
        "in": weight, "out": weight.detach(), "turned": weight.T, "one": number,
        "same": number.detach(), "alone": weight.clone(),
    }  # fmt: skip
    torch.save(written, path, _use_new_zipfile_serialization=zipped)
    found = torpor.load(path)
    found["in"].mul_(2)
    found["same"].add_(1)
    assert found["out"].tolist() == [[0, 2, 4], [6, 8, 10]]
    assert (found["one"].tolist(), found["alone"].tolist()) == (2, [[0, 1, 2], [3, 4, 5]])


def test_parameters_of_one_memory_are_leaves(tmp_path):
    torch = pytest.importorskip("torch")
    weight = torch.ones(2)
    made = [torch.nn.Parameter(weight), torch.nn.Parameter(weight), weight.detach()]
    for written in (made, made[::-1]):
        torch.save(written, tmp_path / "a.pt")
        found = torpor.load(tmp_path / "a.pt")
        assert all(one.is_leaf for one in found)
        assert sorted(one.requires_grad for one in found) == [False, True, True]
