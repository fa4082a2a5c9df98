"""Each pass, text in and text out: `fixtures/<pass>.txt` has a kernel before it and after it.

What stands before `---` is read and given to the pass; what the pass makes of it must be what
stands behind, to the letter. `REGENERATE_GOLDEN=1 python -m pytest tests/kernel/passes` writes that
anew; read the difference before committing it.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import torpor.kernel.passes
from torpor.base.target import get_target
from torpor.ir.text import parse, show, show_lines
from torpor.ir.uop import UOp
from torpor.kernel.opts.fission import fission_loops
from torpor.kernel.passes.factors import factored
from torpor.kernel.passes.groups import share_reductions
from torpor.kernel.passes.inplace import shareable
from torpor.kernel.passes.interleaved_loads import interleave_loads
from torpor.kernel.passes.interleaved_stores import interleave_stores
from torpor.kernel.passes.linearise import linearise
from torpor.kernel.passes.scatter import stage_scattered
from torpor.kernel.passes.unroll import unroll
from torpor.kernel.passes.vectorise import vectorise
from torpor.kernel.passes.width import lower_index
from torpor.kernel.ranges import WRITTEN, kind_of, size_of

FOLDER = Path(__file__).parent / "fixtures"
CPU = get_target("cpu")
PARTED = "\n---\n"


def written(root: UOp) -> list[UOp]:
    """The axes that are written out."""
    return [one for one in root.ranges() if kind_of(one) in WRITTEN]


def vectorised(root: UOp) -> UOp:
    (lane,) = written(root)
    return vectorise(root, lane, size_of(lane) or 1)


def may_share(root: UOp) -> str:
    """Which (output, input) may be one memory."""
    return str(shareable(root, linearise(root)))


PASSES: dict[str, Callable[[UOp], UOp | str]] = {
    "fission": fission_loops,
    "factors": lambda root: UOp.sink(*factored(root.src)),
    "groups": lambda root: share_reductions(root, get_target("opencl")),
    "inplace": may_share,
    "vectorise": vectorised,
    "linearise": lambda root: show_lines(linearise(root)),
    "interleaved_loads": interleave_loads,
    "scatter": lambda root: stage_scattered(root, written(root)[-1]),
    "unroll": lambda root: unroll(root, written(root)),
    "interleaved_stores": lambda root: interleave_stores(root, CPU),
    "width": lambda root: lower_index(root, CPU),
}


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_makes_of_a_kernel_what_its_fixture_says(name):
    path = FOLDER / f"{name}.txt"
    before, after = path.read_text(encoding="utf-8").split(PARTED)
    made = PASSES[name](parse(before))
    found = show(made) if isinstance(made, UOp) else made
    if os.environ.get("REGENERATE_GOLDEN") == "1":
        path.write_text(f"{before}{PARTED}{found}\n", encoding="utf-8", newline="\n")
        after = f"{found}\n"
    assert f"{found}\n" == after
    assert found != before.split("\n", 1)[1]


def test_every_pass_has_a_fixture():
    folder = Path(torpor.kernel.passes.__file__).parent
    passes = {file.stem for file in folder.glob("*.py")} - {"__init__"}
    assert passes | {"fission"} == set(PASSES)  # that one is part of the normal form too
    assert {file.stem for file in FOLDER.glob("*.txt")} == set(PASSES)
