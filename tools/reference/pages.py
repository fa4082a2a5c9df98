"""Markdown of the reference: one page for each namespace, and one for each topic of methods."""

from __future__ import annotations

import functools
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

from tools.reference import facts, measure, samples
from tools.reference.listing import FAMILIES, NAMESPACES, Entry, entries, homes
from torpor import Tensor

# What Markdown would take for its own, outside of code.
_MARKUP = re.compile(r"([*_<\[\]|#])")
_CODE = re.compile(r"(`+[^`]+`+)")


def slug(title: str) -> str:
    """The file of a page."""
    return re.sub(r"\W+", "-", title.lower()) + ".md"


@functools.cache
def page_of(entry: Entry) -> str:
    """The file that an entry is explained in."""
    if entry.family is None:
        return slug(entry.space)
    topics = (topic for topic, names in FAMILIES.items() if entry.family.__name__ in names)
    return slug(next(topics, [*FAMILIES][-1]))


def link(entry: Entry) -> str:
    """Where an entry is explained, seen from another page of the reference."""
    home = homes()[entry.identity]
    return f"{page_of(home)}#{home.path}"


@functools.cache
def _known() -> dict[str, Entry]:
    return {entry.path: entry for entry in entries()}


def linked(written: str, space: str, folder: str = "") -> str:
    """Code that is a public name of this namespace, or a method's, as a link to it."""
    name = written.removeprefix("torpor.")
    found = next((_known()[at] for at in (f"{space}.{name}", name, f"Tensor.{name}",
                                         f"torpor.{name}") if at in _known()), None)  # fmt: skip
    return f"[`{written}`]({folder}{link(found)})" if found else f"`{written}`"


def prose(text: str, space: str) -> str:
    """A docstring as Markdown: names are links, examples are blocks, all else is as it is."""
    parts: list[str] = []
    for block in re.split(r"\n\s*\n", text):
        if block.lstrip().startswith(">>>"):
            parts.append(f"```pycon\n{inspect.cleandoc(without_directives(block))}\n```")
            continue
        pieces = [
            linked(piece[1:-1], space)
            if re.fullmatch(r"`[\w.]+`", piece)
            else piece
            if piece.startswith("`")
            else _MARKUP.sub(r"\\\1", piece)
            for piece in _CODE.split(block)
        ]
        parts.append("".join(pieces))
    return "\n\n".join(parts)


def without_directives(block: str) -> str:
    """An example without what it tells doctest."""
    return re.sub(r" *# doctest:.*", "", block)


def _called(entry: Entry) -> str:
    before = "x" if entry.space == "Tensor" and not entry.is_static else entry.space
    named = entry.name if before == "torpor" else f"{before}.{entry.name}"
    return "\n".join(textwrap.wrap(f"{named}{entry.signature}", 76, subsequent_indent="    "))


def _others(entry: Entry) -> str:
    """The other names of what an entry is, with their anchors."""
    same = dict.fromkeys(one.path for one in _called_otherwise()[entry.identity])
    named = [f"`{path}`{{ #{path} }}" for path in same if path != entry.path]
    return f"Also {', '.join(named)}." if named else ""


@functools.cache
def _called_otherwise() -> dict[int, list[Entry]]:
    found: dict[int, list[Entry]] = {}
    for entry in entries():
        found.setdefault(entry.identity, []).append(entry)
    return found


def _own_methods(kind: type) -> Iterator[str]:
    """What a class has of its own that users call, with the first paragraph of its text."""
    for name, value in vars(kind).items():
        if name.startswith("_") or name == "forward" or not inspect.isfunction(value):
            continue
        entry = Entry(kind.__name__, name, value)
        first = entry.text.split("\n\n")[0].replace("\n", " ")
        yield f"- `{name}{entry.signature}`" + (f": {prose(first, 'nn')}" if first else "")


def section(entry: Entry) -> str:
    """One entry: its signature, its text, its other names, own methods, an example, and facts."""
    lines = [f"### {entry.name} {{ #{entry.path} }}"]
    if not entry.is_property:
        lines.append(f"```python\n{_called(entry)}\n```")
    lines += [prose(entry.text, entry.space), _others(entry)]
    if inspect.isclass(entry.value):
        lines.append("\n".join(_own_methods(entry.value)))
    lines += [samples.shown(entry), facts.shown(entry)]
    return "\n\n".join(line for line in lines if line)


def _introduction(of: Any, space: str) -> str:
    told = re.sub(r"^Floor \d+: ", "", inspect.cleandoc(of.__doc__ or ""))
    return prose(told[:1].upper() + told[1:], space)


def _topic(title: str) -> str:
    """A page of methods, family by family."""
    there = [e for e in homes().values() if e.space == "Tensor" and page_of(e) == slug(title)]
    families = [*dict.fromkeys(family for name in FAMILIES[title] for family in Tensor.__mro__
                               if family.__name__ == name),
                *dict.fromkeys(e.family for e in there)]  # fmt: skip
    parts = ["---\nsearch:\n  boost: 4\n---", f"# {title}"]  # methods are found before others
    for family in dict.fromkeys(families):
        mine = [e for e in there if e.family is family]
        if mine:
            module = importlib.import_module(family.__module__)
            told = (module.__doc__ or family.__name__).split("\n\n")[0].split(":")[0]
            heading = told.replace("\n", " ").rstrip(".")
            parts += [f"## {prose(heading, 'Tensor')}"] if heading != title else []
            parts += [_introduction(family, "Tensor")]
            parts += map(section, mine)
    return "\n\n".join(parts)


def _space(space: str) -> str:
    """A page of a namespace: names that are explained elsewhere, then what is explained here."""
    module = importlib.import_module(NAMESPACES[space])
    title = space if space == "torpor" else f"torpor.{space}"
    parts = [f"# {title}", _introduction(module, space)]
    mine = [e for e in entries() if e.space == space]
    elsewhere = [e for e in mine if homes()[e.identity] != e]
    if elsewhere:
        listed = ", ".join(f"[`{e.name}`]({link(e)})" for e in elsewhere)
        parts += ["## Explained elsewhere", f"Other names of what these are: {listed}."]
    here = [e for e in mine if homes()[e.identity] == e]
    if here:
        parts += ["## Names", *map(section, here)]
    return "\n\n".join(parts)


def _index() -> str:
    topics = "\n".join(f"- [{title}]({slug(title)})" for title in FAMILIES)
    spaces = "\n".join(
        f"- [`{'' if space == 'torpor' else 'torpor.'}{space}`]({slug(space)})"
        for space in NAMESPACES
        if space != "Tensor"
    )
    return f"""# Reference

Made from the docstrings. `torpor.f(x)` and `x.f()` mean the same. Shapes are written as
`(batch, channels, …)` or `x[batch, channels]`. Examples need `import torpor` and
`from torpor import Tensor, nn`.

What stands below an example was found by calling it with other tensors. **Shapes** are those that
its tensors may have: a number is a size that the example's arguments ask for, `...` any axes in
front. **Formats** are those of the result, for each format of these tensors. **Errors** show a
call for each kind that was met, with what it says.

## Methods of tensors

{topics}

## Namespaces

{spaces}

## What the texts say

{measure.table()}
"""


def navigation() -> list[Any]:
    """The pages of the reference as MkDocs lists them."""
    spaces = [space for space in NAMESPACES if space != "Tensor"]
    topics = {"Methods of tensors": [f"reference/{slug(title)}" for title in FAMILIES]}
    return ["reference/index.md", topics, *(f"reference/{slug(space)}" for space in spaces)]


def pages() -> Iterable[tuple[str, str]]:
    """The file and the text of each page."""
    yield "index.md", _index()
    for title in FAMILIES:
        yield slug(title), _topic(title)
    for space in NAMESPACES:
        if space != "Tensor":
            yield slug(space), _space(space)
