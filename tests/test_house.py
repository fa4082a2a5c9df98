"""The house stands: imports point down and everything fits its size budget."""

import ast
import graphlib
from pathlib import Path

import pytest

from tools import house

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "torpor"
# Rooms within the kernel, and those that each may import from.
KERNEL = {
    "split": {"choose", "opts"},
    "choose": {"opts"},
    "opts": set(),
    "passes": set(),
    "decompose": set(),
}


def test_no_file_of_tensor_imports_another_that_imports_it_inside_functions_neither() -> None:
    folder = SOURCE / "tensor"
    arrows: dict[str, set[str]] = {}
    for path in folder.glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                node.body = []
        names = [(one.name or "").split(".") for one in house.imports(tree, "torpor.tensor")]
        wanted = {name[2] for name in names if len(name) > 2 and name[1] == "tensor"}
        arrows[path.stem] = {name for name in wanted if (folder / f"{name}.py").exists()}
    assert arrows["handle"]
    graphlib.TopologicalSorter(arrows).prepare()  # raises where imports go round


def build(tmp_path: Path, files: dict[str, str]) -> Path:
    """A package called torpor with these files."""
    package = tmp_path / "src" / "torpor"
    for name, text in files.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return package


def faults(tmp_path: Path, files: dict[str, str]) -> list[str]:
    return [offence.what for offence in house.import_offences(build(tmp_path, files))]


def test_every_import_points_down():
    assert [str(offence) for offence in house.import_offences(SOURCE)] == []


def test_no_modules_load_each_other():
    assert [str(offence) for offence in house.circle_offences(SOURCE)] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from torpor.tensor import c", True),
        ("import torpor.tensor.c", True),
        ("from torpor.tensor.c import name", True),
        ("class A:\n    from . import c", True),
        ("try:\n    from .c import name\nfinally:\n    pass", True),
        ("def f():\n    from torpor.tensor import c", False),
        ("if TYPE_CHECKING:\n    from torpor.tensor import c", False),
    ],
)
def test_a_circle_through_modules_of_a_room_is_found(tmp_path, text, expected):
    files = {"tensor/a.py": text, "tensor/c.py": "from torpor.tensor.a import x", "tensor/b.py": ""}
    found = [offence.what for offence in house.circle_offences(build(tmp_path, files))]
    assert len(found) == expected
    assert all("tensor.a -> " in what and "tensor.c -> " in what for what in found)


@pytest.mark.parametrize("room", KERNEL)
def test_rooms_within_the_kernel_import_as_the_architecture_says(room):
    paths = sorted((SOURCE / "kernel" / room).glob("*.py"))
    assert paths
    for path in paths:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = [one.name or "" for one in house.imports(tree, house.dotted(path, SOURCE))]
        found = {name.split(".")[2] for name in names if name.startswith("torpor.kernel.")}
        assert found & KERNEL.keys() <= KERNEL[room] | {room}, path


@pytest.mark.parametrize("folder", ["src", "tests", "tools"])
def test_files_functions_and_lines_fit_their_budgets(folder):
    paths = sorted((ROOT / folder).rglob("*.py"))
    assert paths
    assert [str(offence) for path in paths for offence in house.size_offences(path)] == []


@pytest.mark.parametrize(
    ("name", "text", "way"),
    [
        ("ir/node.py", "from torpor.rules.algebra import fold\n", "up"),
        ("ir/node.py", "import torpor.tensor as t\n", "up"),
        ("ir/node.py", "from torpor import pipeline\n", "up"),
        ("ir/deep/node.py", "from ...view import View\n", "up"),
        ("base/errors.py", "def f():\n    from ..ir import UOp\n", "up"),
        ("base/errors.py", "if TYPE_CHECKING:\n    from torpor.ir import UOp\n", "up"),
        ("view/a.py", "class A:\n    def f(self):\n        import torpor.cli\n", "up"),
        ("view/a.py", "import importlib\nm = importlib.import_module('torpor.nn')\n", "up"),
        ("view/a.py", "m = import_module(f'torpor.device.{kind}')\n", "up"),
        ("view/a.py", "m = import_module('..device', __package__)\n", "up"),
        ("pipeline.py", "from .tensor import Tensor\n", "up"),
        ("graph/a.py", "from torpor.schedule import order\n", "sideways"),
        ("source/a.py", "from torpor.device.cpu import Cpu\n", "sideways"),
        ("device/a.py", "from ..source import llvm\n", "sideways"),
        ("capture.py", "from torpor import io\n", "sideways"),
        ("array_api.py", "from .capture import jit\n", "sideways"),
    ],
)
def test_a_bad_arrow_is_caught(tmp_path, name, text, way):
    (fault,) = faults(tmp_path, {name: text})
    assert f"imports {way}: torpor." in fault


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("graph/a.py", "from torpor.view import View\nimport torpor.base.errors\nimport numpy\n"),
        ("graph/a.py", "from .b import c\nfrom torpor.graph.b import c\nfrom ..ir import UOp\n"),
        ("graph/a.py", "import torpor_elsewhere\nfrom importlib import import_module\n"),
        ("pipeline.py", "from .source import llvm\nfrom torpor.device import Device\n"),
        ("device/a.py", "m = importlib.import_module(f'torpor.device.{kind}')\n"),
        ("__init__.py", "from torpor.cli import main\nfrom torpor.tensor import Tensor\n"),
        ("__main__.py", "from torpor.cli import main\n"),
    ],
)
def test_an_arrow_that_points_down_or_stays_in_its_room_is_fine(tmp_path, name, text):
    assert faults(tmp_path, {name: text}) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import torpor\n", "the roof"),
        ("from torpor import Tensor\n", "the roof or no room"),
        ("from .. import Tensor\n", "the roof or no room"),
        ("import importlib\nimportlib.import_module(name)\n", "no literal"),
    ],
)
def test_the_roof_and_unreadable_imports_are_refused(tmp_path, text, words):
    (fault,) = faults(tmp_path, {"nn/a.py": text})
    assert words in fault


def test_a_room_outside_the_table_is_caught(tmp_path):
    assert faults(tmp_path, {"cellar/a.py": ""}) == [
        "cellar is no room of the house; add it to FLOORS or move it"
    ]


def test_an_offence_names_file_and_line(tmp_path):
    package = build(tmp_path, {"ir/a.py": "import math\n\nfrom torpor.nn import Linear\n"})
    (offence,) = house.import_offences(package)
    assert str(offence).startswith(f"{package / 'ir' / 'a.py'}:3: ir (floor 1) imports up")


def test_what_is_too_long_is_caught(tmp_path):
    function = "def long():\n" + "    x = 1\n" * house.MAX_FUNCTION_LINES
    path = tmp_path / "long.py"
    path.write_text("#" * 101 + "\n" + function + "\n" * house.MAX_FILE_LINES, encoding="utf-8")
    assert [(found.line, found.what) for found in house.size_offences(path)] == [
        (1, "file has 562 lines, at most 500"),
        (1, "line has 101 columns, at most 100"),
        (2, "long has 61 lines, at most 60"),
    ]


def test_what_just_fits_is_accepted(tmp_path):
    path = tmp_path / "fits.py"
    function = "def fits():\n" + "    x = 1\n" * (house.MAX_FUNCTION_LINES - 1)
    text = "#" * 100 + "\n" + function
    path.write_text(text + "\n" * (house.MAX_FILE_LINES - text.count("\n")), encoding="utf-8")
    assert list(house.size_offences(path)) == []
