"""Programs, and the caches in memory and on disk that keep them."""

import os

import numpy as np
import pytest

from tests.pipeline.processes import as_a_new_process
from torpor import Context, Tensor, dtypes, lower, pipeline
from torpor.kernel import Opt, OptOps
from torpor.pipeline import compile as compiling
from torpor.pipeline import disk


@pytest.fixture
def folder(tmp_path):
    """An empty disk cache, and nothing in memory."""
    saved = dict(compiling._executables)
    as_a_new_process()
    with Context(CACHE_DIR=str(tmp_path), CACHE=1):
        yield tmp_path / "kernels"
    compiling._executables.update(saved)


def compute(size=11):
    with pipeline.measuring() as measured:
        got = (Tensor(np.arange(size, dtype=np.float32)) * 3 + 1).numpy()
    np.testing.assert_array_equal(got, np.arange(size) * 3 + 1)
    return [from_disk for _, _, from_disk in measured.compiles]


def test_the_second_process_finds_the_kernel_on_disk(folder):
    assert compute() == [False]
    assert len(disk.entries()) == 1
    as_a_new_process()
    assert compute() == [True]
    assert compute() == [], "in memory now"


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "text"])
def test_a_damaged_entry_is_built_again(folder, damage):
    compute()
    (path,) = disk.entries()
    whole = path.read_bytes()
    flipped = whole[:100] + bytes([whole[100] ^ 1]) + whole[101:]
    path.write_bytes(
        {"flip": flipped, "cut": whole[:-9], "empty": b"", "text": b"not an entry"}[damage]
    )
    as_a_new_process()
    assert compute() == [False]
    as_a_new_process()
    assert compute() == [True], "and is whole again"


def test_an_entry_under_another_name_is_built_again(folder):
    """Where both kernels take the same buffers, it would run and give wrong results."""
    compute(11)
    (path,) = disk.entries()
    compute(13)
    (other,) = {*disk.entries()} - {path}
    other.replace(path)
    as_a_new_process()
    assert compute(11) == [False]


def test_no_temporary_files_are_left(folder):
    compute()
    assert [len(path.name) for path in folder.iterdir()] == [64]


def test_other_code_makes_other_names(monkeypatch):
    name = disk.name_of(b"key", "cpu")
    assert disk.name_of(b"key", "cpu") == name
    assert disk.name_of(b"key", "other") != name
    monkeypatch.setattr(disk, "code_version", lambda *rooms: "another")
    assert disk.name_of(b"key", "cpu") != name


def test_settings_that_change_code_are_in_the_key(folder):
    assert compute() == [False]
    for setting in ({"NOOPT": 1}, {"STRICT_FLOAT": 1}):
        with Context(**setting):
            assert compute() == [False]
    assert compute() == []


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    as_a_new_process()
    with Context(CACHE_DIR=str(blocked), CACHE=1):
        assert compute(13) == [False]


def test_clearing_counts(folder):
    compute()
    compute(12)
    assert disk.clear() == 2
    assert disk.entries() == []


def test_equal_work_is_compiled_once(folder):
    a, b = (Tensor(np.full(19, n, np.float32)) for n in (1, 2))
    with pipeline.measuring() as measured:
        first, second = (a * 5 - 2).numpy(), (b * 5 - 2).numpy()
    assert len(measured.compiles) == 1
    assert len(measured.runs) == 2
    assert (first[0], second[0]) == (3, 8)


def test_measuring_counts_operations_and_seconds():
    with pipeline.measuring() as measured:
        ((Tensor(np.ones(23, np.float32)) + 1) * 2).contiguous().sum().numpy()
    assert measured.operations >= 3
    assert [run.item.reason for run in measured.runs] == ["contiguous", "output"]
    assert all(run.seconds > 0 for run in measured.runs)


@pytest.mark.parametrize("target", ["cpu", "c", "cuda", "cuda:sm_90a", "opencl", "metal", "wgsl"])
def test_lower_needs_no_device(target):
    x = Tensor.empty(64, 32)
    (program,) = lower((x + 1).exp(), target=target)
    assert program.name.startswith("E_")
    assert program.source
    assert program.parameters == ("float32", "float32")
    assert program.written == (0,)
    assert program.bytes == 2 * 64 * 32 * 4
    assert program.ops >= 2 * 64 * 32
    sizes = np.prod([*program.global_size, *program.local_size])
    upcast = np.prod([o.arg for o in program.opts if o.op is OptOps.UPCAST])
    groups = target not in ("cpu", "c")
    assert sizes == (64 * 32 / upcast if groups else 1)


def test_opts_are_applied_as_given():
    make = lambda: Tensor.empty(16, 16).sum(1)  # noqa: E731
    (plain,) = lower(make(), target="cuda", opts=[])
    assert plain.opts == ()
    assert (plain.global_size, plain.local_size) == ((16, 1, 1), (1, 1, 1))
    opts = (Opt(OptOps.LOCAL, 0, 4), Opt(OptOps.GROUPTOP, 0, 8))
    (tuned,) = lower(make(), target="cuda", opts=opts)
    assert tuned.opts == opts
    assert np.prod(tuned.local_size) == 32
    assert tuned.global_size == (4, 1, 1)


def test_lowering_twice_gives_the_same_text():
    x = Tensor.empty(8, 8, dtype=dtypes.float64)
    assert lower(x @ x, target="cpu")[0] == lower(x @ x, target="cpu")[0]


def test_the_cache_folder_may_have_spaces(tmp_path):
    as_a_new_process()
    with Context(CACHE_DIR=os.path.join(tmp_path, "a folder"), CACHE=1):
        assert compute(14) == [False]
        assert len(disk.entries()) == 1
