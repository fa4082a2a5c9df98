"""Torpor's own native code is compiled once for all processes, and never taken from a bad file."""

import ctypes

import pytest

from torpor.base.settings import Context
from torpor.device import llvm, resident
from torpor.device.words import Text

TEXT = "def torpor_resident_{number}(): return {number}"


@pytest.fixture
def compiled(tmp_path, monkeypatch):
    """The names of what is compiled, in a cache of its own."""
    names = []
    compile_text = llvm.compile_text

    def counted(text, name, *more, **options):
        names.append(name)
        return compile_text(text, name, *more, **options)

    monkeypatch.setattr(llvm, "compile_text", counted)
    with Context(CACHE_DIR=str(tmp_path)):
        yield names


def value_of(number, name):
    symbol = f"torpor_resident_{number}"
    (place,) = resident.addresses(Text(TEXT.format(number=number)), name, (symbol,))
    return ctypes.CFUNCTYPE(ctypes.c_int64)(place)()


def test_it_is_compiled_once(compiled):
    assert value_of(11, "first") == 11
    assert value_of(11, "second") == 11
    assert value_of(12, "third") == 12
    assert compiled == ["first", "third"]
    assert len(list(resident.folder().iterdir())) == 2


@pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda data: b"", lambda data: b"x"])
def test_a_damaged_file_is_made_again(compiled, damage):
    value_of(13, "first")
    (path,) = resident.folder().iterdir()
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    assert value_of(13, "again") == 13
    assert compiled == ["first", "again"] and path.read_bytes() == whole


def test_a_file_of_another_text_is_made_again(compiled):
    value_of(16, "first")
    (path,) = resident.folder().iterdir()
    value_of(17, "second")
    (other,) = set(resident.folder().iterdir()) - {path}
    other.replace(path)
    value_of(16, "again")
    assert compiled == ["first", "second", "again"]


def test_without_a_cache_nothing_is_kept(compiled):
    with Context(CACHE=0):
        assert value_of(14, "first") == 14
    assert not resident.folder().exists()


def test_clear(compiled):
    value_of(15, "first")
    resident.clear()
    assert list(resident.folder().iterdir()) == []
    value_of(15, "again")
    assert compiled == ["first", "again"]
