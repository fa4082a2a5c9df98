"""Which processor code is generated for."""

import pytest

from torpor.base.errors import DeviceError
from torpor.device.machine import cache_bytes, facts, machine


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
