"""The documents are true: their code runs, prints what they say, and what they name exists."""

import re
import sys

import numpy as np
import pytest

from tests import documents
from tests.documents import (
    DOCUMENTS,
    ROOT,
    Block,
    blocks,
    expectations,
    outputs_of,
    stable,
)
from torpor import Tensor
from torpor.base.errors import TorporError
from torpor.base.settings import DEFAULTS
from torpor.cli.main import parser
from torpor.ir.records import OptOps

PAGES = (*DOCUMENTS, "CONTRIBUTING.md")
LABELS = {"python", "text", "text linux", "toml"}
ELLIPSIS = "# …"
FOLDERS = ("src", "tests", "tools", "conformance", "examples", "bench")
SOURCES = {path.as_posix() for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")}


def text_of(document):
    return (ROOT / document).read_text(encoding="utf-8")


def on_this_system(block):
    return block.label != "text linux" or sys.platform == "linux"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_code_prints_what_the_document_says(document):
    wanted = expectations(blocks(text_of(document)))
    for (block, promised), printed in zip(wanted, outputs_of(document), strict=True):
        place = f"{document}:{block.line}"
        if promised is None:
            assert stable(printed) == "", f"{place} prints, and no text block says what"
        elif on_this_system(promised):
            assert stable(printed) == stable(promised.text), place


@pytest.mark.parametrize("page", PAGES)
def test_blocks_are_of_a_known_kind_and_outputs_follow_code(page):
    before = None
    for block in blocks(text_of(page)):
        place = f"{page}:{block.line}"
        assert block.label in LABELS or block.label.startswith("python from "), place
        if block.is_output:
            assert before is not None and before.runs, f"{place} is the output of nothing"
        before = block


@pytest.mark.parametrize("page", PAGES)
def test_quoted_code_stands_in_the_file_that_is_named(page):
    for block in blocks(text_of(page)):
        if block.label.startswith("python from "):
            source = text_of(block.label.removeprefix("python from "))
            for part in re.split(rf"^ *{ELLIPSIS}$", block.text, flags=re.MULTILINE):
                assert part.strip("\n") in source, f"{page}:{block.line}:\n{part}"


@pytest.mark.parametrize("page", PAGES)
def test_links_and_paths_lead_somewhere(page):
    text = text_of(page)
    links = re.findall(r"\]\((?!https?:)([^)#]+)", text)
    assert all((ROOT / page).parent.joinpath(link).exists() for link in links), links
    paths = set(re.findall(r"`((?:src|tests|tools|docs|bench)/[\w./]*)`", text))
    assert [path for path in paths if not (ROOT / path).exists()] == []
    files = set(re.findall(r"`((?:\w+/)*\w+\.py)`", text))
    assert [one for one in files if not any(path.endswith(f"/{one}") for path in SOURCES)] == []


@pytest.mark.parametrize("page", PAGES)
def test_commands_exist(page):
    text = text_of(page)
    targets = set(re.findall(r"^([a-z-]+):", text_of("Makefile"), re.MULTILINE))
    assert set(re.findall(r"(?:^ {4}|`)make ([a-z-]+)\b", text, re.MULTILINE)) <= targets
    commands = set(parser()._subparsers._group_actions[0].choices)
    assert set(re.findall(r"(?:^ {4}|`)torpor ([a-z]+)\b", text, re.MULTILINE)) <= commands


def test_the_settings_table_is_the_settings():
    rows = re.findall(r"^\| `(\w+)` \| ([^|]*) \|", text_of("docs/debugging.md"), re.MULTILINE)
    assert {name: value.strip().strip("`") for name, value in rows} == {
        name: str(value) or "empty" for name, value in DEFAULTS.items()
    }


def shown(expression):
    """What an expression gives: its format and values, or the error that it raises."""
    try:
        made = eval(expression, {"Tensor": Tensor, "np": np})  # a document of this repository
        return f"{made.dtype.name} {made.tolist()}"
    except TorporError as error:
        return type(error).__name__


def test_the_table_of_what_pytorch_does_otherwise_is_true():
    rows = re.findall(r"^\| [^|`]*: `(.+)` \| `([^`]*)`.* \| (.*) \|$", text_of("README.md"), re.M)
    assert len(rows) >= 10
    assert [(code, shown(code)) for code, _, _ in rows] == [(code, here) for code, here, _ in rows]
    assert not [code for code, here, there in rows if there.startswith(f"`{here}`")]


def test_the_map_lists_every_document():
    listed = set(re.findall(r"\]\((\w[\w-]*\.md)\)", text_of("docs/index.md")))
    there = {path.name for path in (ROOT / "docs").glob("*.md")} - {"index.md"}
    assert listed == there


def test_the_walk_is_short_enough_to_be_walked():
    assert len(text_of("docs/walk.md").splitlines()) <= 350


# --- the machinery itself can fail ----------------------------------------------------------------
def test_blocks_are_found_with_their_lines():
    text = "a\n```python\nx = 1\nprint(x)\n```\n\n```text\n1\n```\n"
    assert blocks(text) == [Block("python", "x = 1\nprint(x)", 3), Block("text", "1", 8)]
    with pytest.raises(AssertionError, match="never closed"):
        blocks("```python\n")


def test_blocks_share_a_namespace_and_what_they_print_is_caught(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("```python\nx = 1\n```\n```python\nprint(x)\n```\n```text\n2\n```\n", "utf-8")
    assert documents.execute("page.md") == ["", "1\n"]
    (silent, nothing), (_, promised) = expectations(blocks(page.read_text("utf-8")))
    assert (silent.line, nothing, promised.text) == (2, None, "2")
    page.write_text("```python\nx = 1 / 0\n```\n", "utf-8")
    with pytest.raises(ZeroDivisionError):
        documents.execute("page.md")


def test_only_times_and_document_lines_are_let_off():
    line = (
        "*** CPU  r_2     12.5 us     0.10 GFLOP/s    1.00 GB/s  output  docs/walk.md:17: x @ w  "
    )
    assert stable(line) == "*** CPU  r_2 # us # GFLOP/s # GB/s  output  docs/walk.md:#: x @ w"
    assert stable("Buffer(#12, CPU) 0x7f 13 ms") == "Buffer(#12, CPU) 0x7f # ms"
    assert stable("Buffer(#12, CPU) 1.5") != stable("Buffer(#13, CPU) 1.5")


def test_every_opt_is_explained():
    page = text_of("docs/opts.md")
    assert [o.name for o in OptOps if o.name not in page] == []
