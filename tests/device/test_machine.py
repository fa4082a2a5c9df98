"""Which processor code is generated for."""

import pytest

from torpor import Tensor
from torpor.base.errors import DeviceError
from torpor.device.machine import MOST_STAGED, cache_bytes, facts, machine
from torpor.kernel import Kernel
from torpor.kernel.heuristics import choose


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


def test_the_host_runs_its_own_code_and_less():
    assert machine("").runs_here
    assert machine("native,-fma").runs_here
    assert machine("native,-fma").has("fma") is False


@pytest.mark.parametrize("setting", ["pentium9", "sse,avx2"])
def test_an_unknown_processor_is_refused(setting):
    with pytest.raises(DeviceError, match="TARGET"):
        machine(setting)


def test_the_cache_is_of_a_plausible_size():
    assert 1 << 16 <= cache_bytes() <= 1 << 28


@pytest.mark.parametrize("cache", [256 << 10, 512 << 10, 2 << 20, 12 << 20])
def test_packed_tiles_take_a_part_of_the_cache_that_the_machine_has(cache, monkeypatch):
    monkeypatch.setattr("torpor.device.machine.cache_bytes", lambda: cache)
    target = facts.__wrapped__(machine(""))
    assert target.cache_bytes == cache
    assert cache // 4 <= target.stage_bytes <= cache or target.stage_bytes == MOST_STAGED
    product = Tensor.empty(700, 900) @ Tensor.empty(900, 800)
    (item,) = product.schedule()
    tiled = Kernel(item.ast, target).apply(choose(Kernel(item.ast, target)))
    packed = sum(n.arg.size * n.dtype.itemsize for n in tiled.staged())
    assert 0 < packed <= target.stage_bytes
