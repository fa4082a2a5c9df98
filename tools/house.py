"""The house rules that a program can check: which way imports point, and how long things are.

`src/torpor` is a house of floors. A room imports only from floors below its own; rooms on one floor
never import each other. The roof (`torpor/__init__.py`, `torpor/__main__.py`) may import anything,
and no room imports the roof. Imports inside functions, under `TYPE_CHECKING` and through
`importlib.import_module` with a literal (or a literal prefix) count like any other.

Run `python -m tools.house` in the repository root; it prints each offence as `file:line: what`.
"""

from __future__ import annotations

import ast
import graphlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PACKAGE = "torpor"

FLOORS = {
    "base": 0,
    "ir": 1,
    "rules": 2,
    "view": 3,
    "graph": 4,
    "schedule": 4,
    "kernel": 4,
    "source": 4,
    "device": 4,
    "pipeline": 5,
    "tensor": 6,
    "capture": 7,
    "array_api": 7,
    "io": 7,
    "dist": 7,
    "nn": 8,
    "explore": 9,
    "profile": 9,
    "cli": 10,
}
ROOF = ("__init__", "__main__")

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 60
MAX_COLUMNS = 100


class Offence(NamedTuple):
    """One broken rule, where it is broken."""

    path: Path
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


class Imported(NamedTuple):
    """A dotted module name that a line imports; None where no literal says which."""

    line: int
    name: str | None


def room_of(path: Path, package: Path) -> str | None:
    """Room that a source file belongs to, None for the roof."""
    first = path.relative_to(package).parts[0]
    name = first.removesuffix(".py")
    return None if first.endswith(".py") and name in ROOF else name


def room_paths(package: Path, lowest: int, highest: int) -> list[Path]:
    """Existing files and folders (that hold Python files) of the rooms on these floors."""
    paths = []
    for room, floor in FLOORS.items():
        folder, file = package / room, package / f"{room}.py"
        if lowest <= floor <= highest:
            paths += [folder] if any(folder.rglob("*.py")) else []
            paths += [file] if file.exists() else []
    return paths


def dotted(path: Path, package: Path) -> str:
    """Name of the package that relative imports in `path` start from."""
    return ".".join((package.name, *path.relative_to(package).parts[:-1]))


def absolute(name: str, level: int, home: str) -> str:
    """Absolute form of a name written with `level` leading dots in the package `home`."""
    if not level:
        return name
    kept = home.split(".")[: len(home.split(".")) - level + 1]
    return ".".join((*kept, name) if name else kept)


def statement_targets(node: ast.Import | ast.ImportFrom, home: str) -> Iterator[Imported]:
    """Modules that one import statement names; `from torpor import x` names `torpor.x`."""
    if isinstance(node, ast.Import):
        yield from (Imported(node.lineno, alias.name) for alias in node.names)
        return
    source = absolute(node.module or "", node.level, home)
    if source == home.split(".")[0]:
        yield from (Imported(node.lineno, f"{source}.{alias.name}") for alias in node.names)
    else:
        yield Imported(node.lineno, source)


def literal_prefix(node: ast.expr) -> str | None:
    """The constant text that a string expression is known to begin with."""
    if isinstance(node, ast.JoinedStr) and node.values:
        node = node.values[0]
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def call_target(node: ast.Call, home: str) -> Imported | None:
    """Module that `import_module(...)` or `__import__(...)` names, None for any other call."""
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if name not in ("import_module", "__import__"):
        return None
    keywords = [keyword.value for keyword in node.keywords if keyword.arg == "name"]
    first = [*node.args, *keywords][:1]
    text = literal_prefix(first[0]) if first else None
    if not text:
        return Imported(node.lineno, None)
    level = len(text) - len(text.lstrip("."))
    return Imported(node.lineno, absolute(text[level:], level, home))


def imports(tree: ast.AST, home: str) -> Iterator[Imported]:
    """Everything that a file imports, wherever in it the import stands."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from statement_targets(node, home)
        elif isinstance(node, ast.Call) and (found := call_target(node, home)):
            yield found


def arrow_fault(room: str, imported: str | None, package: str) -> str | None:
    """What is wrong with `room` importing this module, None if nothing is."""
    if imported is None:
        return "imports a module that no literal names; write its prefix as a literal"
    parts = imported.split(".")
    if parts[0] != package:
        return None
    target = parts[1] if len(parts) > 1 and parts[1] else None
    if target is None or target not in FLOORS:
        named = f"{package}.{target}" if target else package
        return f"{room} imports {named}, which is the roof or no room; import from a room below"
    if target == room or FLOORS[target] < FLOORS[room]:
        return None
    way = "sideways" if FLOORS[target] == FLOORS[room] else "up"
    return f"{room} (floor {FLOORS[room]}) imports {way}: {imported} (floor {FLOORS[target]})"


def import_offences(package: Path) -> Iterator[Offence]:
    """Arrows in the package that point up or sideways, and files that belong to no room."""
    for path in sorted(package.rglob("*.py")):
        room = room_of(path, package)
        if room is None:
            continue
        if room not in FLOORS:
            yield Offence(path, 1, f"{room} is no room of the house; add it to FLOORS or move it")
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        for line, name in imports(tree, dotted(path, package)):
            if fault := arrow_fault(room, name, package.name):
                yield Offence(path, line, fault)


def loading_imports(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Imports that run when a module is loaded: not those in functions or for types alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        elif isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            yield from (found for other in node.orelse for found in loading_imports(other))
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from loading_imports(node)


def loads(package: Path) -> dict[str, set[str]]:
    """The modules of the package that each module of it loads, the packages around them aside."""
    files = package.rglob("*.py")
    names = {".".join((dotted(path, package), path.stem)).removesuffix(".__init__"): path
             for path in files}  # fmt: skip
    found: dict[str, set[str]] = {}
    for name, path in names.items():
        asked: set[str] = set()
        home = dotted(path, package)
        for node in loading_imports(ast.parse(path.read_text(encoding="utf-8"), str(path))):
            for _, source in statement_targets(node, home):
                inside = {f"{source}.{alias.name}" for alias in node.names} & names.keys()
                asked |= inside or {source or ""}
        found[name] = (asked & names.keys()) - {name}
    return found


def circle_offences(package: Path) -> Iterator[Offence]:
    """A circle of modules that load each other: which of them may be imported first is chance."""
    try:
        graphlib.TopologicalSorter(loads(package)).prepare()
    except graphlib.CycleError as error:
        yield Offence(package, 1, f"imports go round: {' -> '.join(reversed(error.args[1]))}")


def size_offences(path: Path) -> Iterator[Offence]:
    """Files, functions and lines of one file that are longer than the budgets."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    if len(lines) > MAX_FILE_LINES:
        yield Offence(path, 1, f"file has {len(lines)} lines, at most {MAX_FILE_LINES}")
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_COLUMNS:
            yield Offence(path, number, f"line has {len(line)} columns, at most {MAX_COLUMNS}")
    for node in ast.walk(ast.parse(text, str(path))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MAX_FUNCTION_LINES:
                what = f"{node.name} has {length} lines, at most {MAX_FUNCTION_LINES}"
                yield Offence(path, node.lineno, what)


def offences(root: Path) -> list[Offence]:
    """Every broken rule in the repository at `root`."""
    package = root / "src" / PACKAGE
    found = [*import_offences(package), *circle_offences(package)]
    for folder in ("src", "tools", "tests", "bench", "conformance", "examples"):
        for path in sorted((root / folder).rglob("*.py")):
            found.extend(size_offences(path))
    return found


def main() -> int:
    """Print the offences in the current repository; the exit status is 1 if there are any."""
    root = Path(__file__).resolve().parent.parent
    found = offences(root)
    for offence in found:
        print(offence._replace(path=offence.path.relative_to(root)))
    print(f"house: {len(found)} offences" if found else "house: in order")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
