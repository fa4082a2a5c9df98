"""Whether the system lets this process use tile registers, and what follows where it does not."""

import subprocess
import sys

import pytest

from torpor.base.errors import DeviceError
from torpor.device import machine as machine_module
from torpor.device import tiles
from torpor.device.machine import AMX, facts, machine


@pytest.fixture
def asked_anew(monkeypatch):
    """The machine as it is looked at for the first time."""
    monkeypatch.setattr(machine_module, "may_use_tiles", lambda: False)
    machine.cache_clear()
    yield
    machine.cache_clear()


def test_where_the_system_refuses_there_are_no_tiles(asked_anew):
    assert not facts(machine("")).fragments
    assert not any(machine("").has(name) for name in AMX)
    assert not machine("amx").runs_here


def test_other_systems_are_not_asked(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    tiles.may_use_tiles.cache_clear()
    assert not tiles.may_use_tiles()
    tiles.may_use_tiles.cache_clear()


def test_a_refusal_is_an_answer(monkeypatch):
    """The call fails on processors and kernels that know nothing of it."""
    monkeypatch.setattr(tiles, "TILE_DATA", 1 << 20)
    tiles.may_use_tiles.cache_clear()
    assert not tiles.may_use_tiles()
    tiles.may_use_tiles.cache_clear()


@pytest.mark.parametrize(
    ("setting", "formats"),
    [
        ("avx512", set()),
        ("avx512,+amx-tile,+amx-bf16", {"bfloat16"}),
        ("amx,-amx-bf16", {"int8", "uint8"}),
        ("amx", {"bfloat16", "int8", "uint8"}),
        ("amx,-avx512f", set()),
    ],
)
def test_fragments_follow_the_features(setting, formats):
    assert {one.left for one in facts(machine(setting)).fragments} == formats


def test_processes_forked_and_begun_anew_use_them():
    if not machine("amx").runs_here:
        pytest.skip("this processor has no AMX")
    script = """if True:
        import os
        from tests import matrices
        from torpor.base.settings import Context
        def check():
            a, b = matrices.operand("int8", (64, 128)), matrices.operand("int8", (128, 64), 1)
            with Context(TARGET="amx"):
                assert (matrices.product(a, b).numpy() == matrices.exact(a, b)).all()
        check()
        child = os.fork()
        if not child:
            check()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    """
    subprocess.run([sys.executable, "-c", script], check=True)


def test_code_for_tiles_is_not_run_where_there_are_none(asked_anew):
    from tests import matrices
    from torpor.base.settings import Context

    a = matrices.operand("int8", (64, 64))
    with Context(TARGET="amx"), pytest.raises(DeviceError, match="cannot run code"):
        matrices.product(a, a).numpy()
