"""Documents that run: the fenced blocks of a Markdown file, their execution, and their outputs.

What stands after the three backticks says what a block is:

    python             is executed, in one namespace a document, from top to bottom
    python from PATH   quotes PATH: its parts, between lines `# …`, stand there word for word
    text               after a `python` block: exactly what that block prints, on both streams
    text linux         likewise; compared on Linux only (names of symbols, calling conventions)
    toml               is for people

`python -m tests.documents` in the repository's root writes every `text` block anew; read the
difference before you keep it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = tuple(
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")))
)
FENCE = "```"
TIMEOUT = 240  # seconds a document
# What differs from run to run: measured times and rates, and the line of the document that a
# diagnostic names. Nothing else is let off.
UNSTABLE = (
    (re.compile(r" +\d[\d.,]* (us|ms|GFLOP/s|GB/s)\b"), r" # \1"),
    (re.compile(r"(\w+\.md):\d+"), r"\1:#"),
)


class Block(NamedTuple):
    """A fenced block: its label, its text, and the line of the document that the text begins on."""

    label: str
    text: str
    line: int

    @property
    def runs(self) -> bool:
        return self.label == "python"

    @property
    def is_output(self) -> bool:
        return self.label in ("text", "text linux")


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a document in order; an open fence is an error."""
    found: list[Block] = []
    label, start = None, 0
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if not line.startswith(FENCE):
            continue
        if label is None:
            label, start = line[len(FENCE) :].strip(), number
        else:
            found.append(Block(label, "\n".join(lines[start : number - 1]), start + 1))
            label = None
    assert label is None, f"the block that begins on line {start} is never closed"
    return found


def stable(output: str) -> str:
    """The output without what differs from run to run, and without blanks at the ends of lines."""
    for pattern, replacement in UNSTABLE:
        output = pattern.sub(replacement, output)
    return "\n".join(line.rstrip() for line in output.strip("\n").splitlines())


# --- running --------------------------------------------------------------------------------------
def execute(document: str) -> list[str]:
    """What each `python` block prints, run here and now. Blocks must end normally."""
    space: dict[str, Any] = {"__name__": "__main__"}
    outputs = []
    for block in blocks((ROOT / document).read_text(encoding="utf-8")):
        if block.runs:
            padded = "\n" * (block.line - 1) + block.text
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
                exec(compile(padded, document, "exec"), space)
            outputs.append(printed.getvalue())
    return outputs


def outputs_of(document: str) -> list[str]:
    """What each `python` block prints in a process of its own with torpor's default settings."""
    with tempfile.TemporaryDirectory() as folder:
        known = {k: v for k, v in os.environ.items() if not is_setting(k)}
        done = subprocess.run(
            [sys.executable, "-m", "tests.documents", "--execute", document],
            cwd=ROOT,
            env={**known, "TORPOR_CACHE_DIR": folder, "PYTHONIOENCODING": "utf-8"},
            capture_output=True,
            encoding="utf-8",
            timeout=TIMEOUT,
            check=False,
        )
    assert done.returncode == 0, f"{document} does not run:\n{done.stderr}"
    found: list[str] = json.loads(done.stdout)
    return found


def is_setting(name: str) -> bool:
    from torpor.base.settings import DEFAULTS

    return name.startswith("TORPOR_") or name in DEFAULTS


def expectations(found: list[Block]) -> list[tuple[Block, Block | None]]:
    """Each `python` block with the output that is promised for it."""
    after = [*(block if block.is_output else None for block in found[1:]), None]
    return [(block, after[number]) for number, block in enumerate(found) if block.runs]


# --- writing outputs anew -------------------------------------------------------------------------
def rewrite(document: str) -> bool:
    """Put what the blocks print into the document; whether anything has changed."""
    path = ROOT / document
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    pairs = list(zip(expectations(blocks(text)), outputs_of(document), strict=True))
    changed = False
    for (block, promised), printed in reversed(pairs):
        if promised is None:
            assert not stable(printed), f"{document}:{block.line}: no block for\n{printed}"
        elif stable(printed) != stable(promised.text):
            length = len(promised.text.splitlines())
            fresh = [line.rstrip() for line in printed.strip("\n").splitlines()]
            lines[promised.line - 1 : promised.line - 1 + length] = fresh
            changed = True
    if changed:
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return changed


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--execute"]:
        print(json.dumps(execute(arguments[1])))
        return
    for document in arguments or DOCUMENTS:
        print(f"{document}: {'written anew' if rewrite(document) else 'as it was'}")


if __name__ == "__main__":
    main(sys.argv[1:])
