"""What DEBUG prints, level by level."""

import os
import subprocess
import sys

import pytest

from torpor import Context, Tensor

PROGRAM = """
from torpor import Tensor
print(((Tensor([[1.0, 2.0], [3.0, 4.0]]) + 1).sum(1) * 2).contiguous().numpy().tolist())
"""
# What each level adds, and none below it prints.
SHOWN = {
    1: "schedule: 1 kernels on CPU", 2: "GFLOP/s", 3: "opts of", 4: "define void",
    5: "Ops.END void", 6: "simplify: ", 7: ".globl",
}  # fmt: skip


@pytest.mark.parametrize("level", SHOWN)
def test_every_level_prints_more(level):
    names = {"TORPOR_DEBUG": str(level), "TORPOR_CACHE": "0"}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={**os.environ, **names}, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == "[10.0, 18.0]\n"
    for other, text in SHOWN.items():
        assert (text in run.stderr) == (other <= level), other


def test_every_rewrite_is_printed_at_level_six(capsys):
    with Context(DEBUG=6, CACHE=0):
        ((Tensor.empty(4, 4) + 4) + 3).schedule()
    assert "graph: fold_elementwise" in capsys.readouterr().err
    with Context(DEBUG=5, CACHE=0):
        ((Tensor.empty(4, 4) + 4) + 3).schedule()
    assert "fold_elementwise" not in capsys.readouterr().err


def test_debug_speaks_of_the_kernels_that_are_named_only(capsys):
    with Context(DEBUG="6:r_*", CACHE=0):
        (Tensor.arange(33).cos() * 3.5).contiguous().sum().realize()
    told = capsys.readouterr().err
    names = [line.split()[2] for line in told.splitlines() if line.startswith("*** ")]
    assert names
    assert all(name.startswith("r_") for name in names)
    assert f"@{names[0]}(" in told
    assert "@E_" not in told
    assert "schedule:" not in told
    assert "\n  + " in told
    with Context(DEBUG="2:none*"):
        (Tensor.arange(35) + 4.5).realize()
    assert capsys.readouterr().err == ""
