"""What `make check` runs: every step in order, all of them even after a failure, then a summary."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from tools import house  # noqa: E402

PYTEST_NOTHING_COLLECTED = 5
SOURCES = ("src", "tests", "tools", "bench", "conformance", "examples")


class Step(NamedTuple):
    """One module run with this interpreter, and the exit codes that count as success."""

    name: str
    arguments: tuple[str, ...]
    good: tuple[int, ...] = (0,)


def typed_rooms() -> tuple[str, ...]:
    """Paths of the rooms that are checked in strict mode: floors 0 to 6, and programs on top."""
    package = ROOT / "src" / "torpor"
    paths = house.room_paths(package, lowest=0, highest=house.FLOORS["tensor"])
    paths += [
        package / room for room in ("array_api", "capture", "nn", "profile", "explore", "cli")
    ]
    return tuple(str(path.relative_to(ROOT)) for path in paths)


def steps() -> tuple[Step, ...]:
    """The checks, cheapest first."""
    pytest = ("pytest", "-q", "-p", "no:cacheprovider")
    listed = (
        Step("format", ("ruff", "format", "--check", *SOURCES)),
        Step("lint", ("ruff", "check", *SOURCES)),
        Step("import direction and size budgets", ("tools.house",)),
        Step("types", ("mypy", *typed_rooms())),
        Step(
            "doctests",
            (*pytest, "-n", "2", "--doctest-modules", "src/torpor"),
            good=(0, PYTEST_NOTHING_COLLECTED),
        ),
        Step(
            "CUDA text through NVRTC",
            (*pytest, "-m", "nvrtc", "tests"),
            good=(0, PYTEST_NOTHING_COLLECTED),
        ),
    )
    return tuple(step for step in listed if step.arguments != ("mypy",))


def run(step: Step) -> bool:
    """Run one step in the root folder and say how it went."""
    print(f"== {step.name}", flush=True)
    start = time.perf_counter()
    code = subprocess.run((sys.executable, "-m", *step.arguments), cwd=ROOT, check=False).returncode
    passed = code in step.good
    verdict = "passed" if passed else f"FAILED with exit status {code}"
    print(f"== {step.name}: {verdict} in {time.perf_counter() - start:.1f} s\n", flush=True)
    return passed


def main() -> int:
    """Run all steps; the exit status is 1 if any failed."""
    failed = [step.name for step in steps() if not run(step)]
    print("all checks passed" if not failed else "failed: " + ", ".join(failed))
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
