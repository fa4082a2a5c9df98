"""Golden files: `golden/<target>/<program>.txt` is what a renderer must write, to the letter.

`REGENERATE_GOLDEN=1 python -m pytest tests/source` writes them anew; read the difference before
committing it.
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.source import programs, run

FOLDER = Path(__file__).parent / "golden"
NAMES = (
    "relu_8", "row_sums_4", "padded_4", "checked_4_bad_9", "conditional", "numbers", "matmul_4",
    "arithmetic_int32_1", "arithmetic_float32_4", "group_sum", "bits_4",
)  # fmt: skip


def cases(target: str) -> list[programs.Case]:
    """The programs with golden files that the target can say."""
    return [c for c in programs.all_cases() if c.name in NAMES and target not in c.unlike]


def check(case: programs.Case, target: str) -> None:
    path = FOLDER / target / f"{case.name}.txt"
    text = run.text_of(case, target)
    if os.environ.get("REGENERATE_GOLDEN") == "1":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    assert text == path.read_text(encoding="utf-8")
