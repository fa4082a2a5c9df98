"""Runs the tests marked `target` for each kind of processor that this machine can run code of, with
small and with large caches in turns: `make test-targets`. Arguments are passed on to pytest.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from typing import Final

from torpor.device.machine import LEVELS, machine

# Bytes of the three caches of small and of large processors of today.
CACHES: Final = ("l1=32K,l2=256K,l3=8M", "l1=48K,l2=2M,l3=64M")


def settings() -> list[str]:
    """The values of TARGET to run under."""
    here = [level for level in LEVELS if machine(level).runs_here]
    return [f"{level},{sizes}" for level, sizes in zip(here, itertools.cycle(CACHES))]


def main(arguments: list[str]) -> int:
    """The number of settings under which some test fails."""
    failed = []
    for setting in settings():
        print(f"TARGET={setting}", flush=True)
        command = [sys.executable, "-m", "pytest", "-q", "-m", "target", *arguments]
        if subprocess.run(command, env={**os.environ, "TARGET": setting}, check=False).returncode:
            failed.append(setting)
    for setting in failed:
        print(f"failed under TARGET={setting}")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
