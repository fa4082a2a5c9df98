"""Ask the package index whether wheels exist for the core dependencies on every platform we name.

For each platform and Python version, pip resolves the dependencies of `pyproject.toml` from wheels
alone (`--only-binary :all:`) without installing anything; one that has no wheel there fails the
run. What the dependencies themselves need is resolved too. Environment markers are evaluated for
the interpreter that runs this, not for the platform asked about: a limit of pip, without effect on
the core dependencies, which have no markers. Needs the network and about a minute, and is
therefore no part of `make check`.

    make check-wheels
    python tools/check_wheels.py --python 3.12 --extra opencl
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Tags from the oldest to the newest that a machine of that kind accepts today.
PLATFORMS = {
    "macOS arm64": tuple(f"macosx_{major}_0_arm64" for major in (11, 12, 13, 14)),
    "Linux aarch64": (
        "manylinux2014_aarch64",
        *(f"manylinux_2_{minor}_aarch64" for minor in (17, 24, 26, 27, 28)),
    ),
    "Linux x86-64": (
        "manylinux2014_x86_64",
        *(f"manylinux_2_{minor}_x86_64" for minor in (17, 24, 26, 27, 28)),
    ),
    "Windows x86-64": ("win_amd64",),
}
PYTHONS = ("3.11", "3.12", "3.13")


def requirements(extras: list[str]) -> list[str]:
    """The core dependencies, and those of the named extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"]
    return [*project["dependencies"], *(name for extra in extras for name in optional[extra])]


def resolve(wanted: list[str], tags: tuple[str, ...], python: str) -> tuple[bool, str]:
    """Whether wheels for all of `wanted` exist there, and pip's choice or its complaint."""
    with tempfile.TemporaryDirectory() as target:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run"]
        command += ["--ignore-installed", "--only-binary", ":all:", "--target", target]
        command += ["--python-version", python, "--implementation", "cp", "--report", "-"]
        command += [part for tag in tags for part in ("--platform", tag)]
        done = subprocess.run([*command, *wanted], capture_output=True, text=True, check=False)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        return False, errors[-1] if errors else done.stderr.strip()
    chosen = [entry["metadata"] for entry in json.loads(done.stdout)["install"]]
    return True, ", ".join(sorted(f"{entry['name']} {entry['version']}" for entry in chosen))


def main() -> int:
    """Print one line for each platform and Python version; the exit status is 1 if any lacks."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--python", action="append", help="a version, as 3.12 (default: all)")
    parser.add_argument("--extra", action="append", default=[], help="also check this extra")
    arguments = parser.parse_args()
    wanted = requirements(arguments.extra)
    complete = True
    for platform, tags in PLATFORMS.items():
        for python in arguments.python or PYTHONS:
            found, detail = resolve(wanted, tags, python)
            complete &= found
            print(
                f"{'ok  ' if found else 'LACK'} {platform}, Python {python}: {detail}", flush=True
            )
    return int(not complete)


if __name__ == "__main__":
    sys.exit(main())
