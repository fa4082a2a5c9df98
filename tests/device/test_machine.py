"""Which processor code is generated for."""

import os
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from torpor import Tensor
from torpor.base import settings
from torpor.base.errors import DeviceError
from torpor.base.settings import Context
from torpor.device import Device
from torpor.device import machine as machine_module
from torpor.device.machine import MOST_STAGED, facts, machine, quota
from torpor.ir.ops import Ops
from torpor.kernel import Kernel
from torpor.kernel.choose.heuristics import choose
from torpor.pipeline.compile import program_for


@pytest.mark.parametrize(
    ("setting", "arch", "width", "registers"),
    [
        ("sse", "x86-64-sse", 16, 16),
        ("avx2", "x86-64-avx2", 32, 16),
        ("avx512", "x86-64-avx512", 64, 32),
        ("aarch64", "aarch64-neon", 16, 32),
        ("avx512,-avx512f", "x86-64-avx2", 32, 16),
    ],
)
def test_facts_follow_the_features(setting, arch, width, registers):
    found = facts(machine(setting))
    assert (found.arch, found.vector_bytes, found.registers) == (arch, width, registers)


def test_elements_that_lie_anywhere_are_read_by_one_instruction_where_that_is_quicker():
    generic = machine("avx512")
    assert facts(replace(generic, processor="sapphirerapids")).gathers
    assert not facts(replace(generic, processor="znver5")).gathers
    assert not facts(machine("avx2")).gathers


def test_vectors_of_512_bits_have_the_ports_of_the_processor():
    generic = machine("avx512")
    wide = [facts(replace(generic, processor=name)) for name in ("sapphirerapids", "znver4")]
    assert wide[0].multiply_adds == 2 * wide[1].multiply_adds
    assert wide[0].load_bytes == 2 * wide[1].load_bytes
    sse, avx2 = (facts(machine(level)) for level in ("sse", "avx2"))
    assert sse.multiply_adds < avx2.multiply_adds, "a multiply-add is two instructions"
    assert avx2.broadcasts and not sse.broadcasts


@pytest.mark.parametrize(("amx", "ports"), [(True, 2), (False, 1)])
def test_a_virtual_machine_may_name_an_older_model(amx, ports, monkeypatch):
    """Rocket Lake, which has no AMX, by a host that has."""
    has = dict.fromkeys(("avx512f", "avx512bw", "fma", "avx2"), True) | {"amx-tile": amx}
    monkeypatch.setattr(machine_module, "_host_features", lambda: has)
    monkeypatch.setattr(machine_module.llvm, "get_host_cpu_name", lambda: "rocketlake")
    machine.cache_clear()
    try:
        assert facts(machine("native")).multiply_adds == ports
    finally:
        machine.cache_clear()


def test_the_host_runs_its_own_code_and_less():
    assert machine("").runs_here
    assert machine("native,-fma").runs_here
    assert machine("native,-fma").has("fma") is False


@pytest.mark.parametrize("setting", ["pentium9", "sse,avx2"])
def test_an_unknown_processor_is_refused(setting):
    with pytest.raises(DeviceError, match="TARGET"):
        machine(setting)


def sizes_words(first: int, second: int, last: int) -> str:
    """Words of TARGET for caches of so many KiB."""
    return f"l1={first}K,l2={second}K,l3={last}K"


@pytest.mark.parametrize("last", [4, 32, 480])
def test_large_results_go_past_a_cache_of_which_others_have_a_part(last):
    """A virtual machine sees the whole of its host's last cache, in MiB."""
    target = facts(machine(f"avx512,{sizes_words(48, 2 << 10, last << 10)}"))
    assert target.last_bytes == last << 20
    assert target.stream_bytes == min(last, 32) << 20
    parts_of_lines = facts(machine(f"avx2,{sizes_words(48, 2 << 10, last << 10)}"))
    assert parts_of_lines.stream_bytes == last << 20


@pytest.mark.parametrize("level", ["native", "sse", "avx2", "avx512", "aarch64"])
@pytest.mark.parametrize("second", [128, 256, 512, 2 << 10, 12 << 10])
def test_packed_tiles_take_a_part_of_the_cache_that_the_machine_has(level, second):
    """Whatever the vectors: where panels as long as the sum have no room, parts of it have."""
    target = facts(machine(f"{level},{sizes_words(48, second, 64 << 10)}"))
    sizes = target.first_bytes, target.cache_bytes, target.last_bytes
    assert sizes == (48 << 10, second << 10, 64 << 20)
    assert second << 8 <= target.stage_bytes <= second << 10 or target.stage_bytes == MOST_STAGED
    most = 0
    for rows, terms, columns in ((700, 900, 800), (1000, 3000, 1000), (64, 4096, 4096)):
        (item,) = (Tensor.empty(rows, terms) @ Tensor.empty(terms, columns)).schedule()
        tiled = Kernel(item.ast, target).apply(choose(Kernel(item.ast, target)))
        packed = sum(n.arg.size * n.dtype.itemsize for n in tiled.staged())
        assert packed <= target.stage_bytes
        most = max(most, packed)
    assert most > 0


@pytest.mark.parametrize("word", ["l2=many", "l2=", "l4=1M", "l1=0K", "l1=4M,l2=1M", "l3=-1"])
def test_caches_that_cannot_be_are_refused(word):
    with pytest.raises(DeviceError, match=r"TARGET.*(size of a cache|grow)"):
        machine(f"native,{word}")


def product_sums(setting: str) -> tuple[int, set[int]]:
    """Of a product for a processor: how many vectors of sums grow side by side, at most, and how
    many bytes those of them have that fill a register or more.
    """
    target = facts(machine(setting))
    (item,) = (Tensor.empty(384, 512) @ Tensor.empty(512, 640)).schedule()
    sums = [n for n in program_for(item.ast, target).linear if n.op is Ops.ACC]
    wide = [n for n in sums if n.dtype.itemsize >= target.vector_bytes]
    whole = sum(n.dtype.itemsize // target.vector_bytes for n in wide)
    return whole, {n.dtype.itemsize for n in wide}


@pytest.mark.parametrize(
    ("setting", "least"), [("sse", 6), ("avx2", 8), ("avx512", 16), ("aarch64", 16)]
)
def test_register_tiles_are_as_large_as_the_registers_allow(setting, least):
    """Whole vectors of the processor, and registers are left for what is multiplied."""
    target = facts(machine(setting))
    count, widths = product_sums(setting)
    assert widths == {target.vector_bytes}
    assert least <= count <= target.registers - 2


@pytest.mark.parametrize("sizes", [(16, 128, 1 << 10), (128, 3 << 10, 96 << 10)])
def test_results_are_the_same_whatever_the_caches_hold(sizes):
    """A product, rows that windows slide over, and attention by blocks where the cache is small."""
    random = np.random.default_rng(3)
    image, window = random.random((2, 90, 90), np.float32), random.random((5, 5), np.float32)
    a, b = random.random((200, 333), np.float32), random.random((333, 100), np.float32)
    q, k, v = random.random((3, 2, 1100, 16), np.float32)
    own, given = Device["CPU"].key, settings.text("TARGET")
    with Context(TARGET=f"{given},{sizes_words(*sizes)}"):
        assert Device["CPU"].target.last_bytes == sizes[-1] << 10 and Device["CPU"].key != own
        weight = Tensor(np.stack([window, window])[:, None])
        slid = Tensor(image[None]).conv2d(weight, groups=2).numpy()[0]
        product = (Tensor(a) @ Tensor(b)).numpy()
        attended = Tensor(q).scaled_dot_product_attention(Tensor(k), Tensor(v)).numpy()
    places = np.lib.stride_tricks.sliding_window_view(image.astype(float), (5, 5), axis=(1, 2))
    np.testing.assert_allclose(slid, np.einsum("chwij,ij->chw", places, window), rtol=1e-5)
    np.testing.assert_allclose(product, a.astype(float) @ b, rtol=1e-5)
    scores = np.exp(q.astype(float) @ k.swapaxes(1, 2) / 4)
    np.testing.assert_allclose(attended, scores / scores.sum(-1, keepdims=True) @ v, rtol=1e-5)


@pytest.mark.parametrize(
    ("inner", "outer", "expected"),
    [
        ("max 100000", None, None),
        ("100000 100000", None, 1.0),
        ("300000 100000", "150000 100000", 1.5),
        ("what is this", None, None),
    ],
)
def test_a_container_may_allow_less_time_than_there_are_cores(tmp_path, inner, outer, expected):
    group = tmp_path / "slice" / "one"
    group.mkdir(parents=True)
    (group / "cpu.max").write_text(inner)
    if outer:
        (tmp_path / "slice" / "cpu.max").write_text(outer)
    own = tmp_path / "own"
    own.write_text("1:cpu:/other\n0::/slice/one\n")
    assert quota(tmp_path, own) == expected
    assert quota(tmp_path, tmp_path / "missing") is None


@pytest.mark.skipif(sys.platform != "linux", reason="control groups are Linux's")
def test_cores_are_no_more_than_the_time_for_them(monkeypatch):
    there = len(os.sched_getaffinity(0))
    for given, expected in ((None, there), (0.2, 1), (1.0, 1), (there + 0.5, there)):
        monkeypatch.setattr(machine_module, "quota", partial(passed_on, given))
        assert machine_module.cores() == expected


def passed_on(given):
    return given
