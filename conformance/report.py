"""What sweeps found, as a page with a part for each format."""

from __future__ import annotations

import re
from collections.abc import Mapping

HEAD = """# PyTorch's operators

Values and gradients of PyTorch's own operator samples; written by `make conformance`.

"""
PASSED, FAILED, MISSING = "passed", "failed", "missing"


def written(
    families: Mapping[str, tuple[str, str]],
    dtype: str,
    samples: int | None,
    host_calls: Mapping[str, set[str]],
) -> str:
    """A format's part of the page: how many families passed, and the names of all, with reasons."""
    by = {verdict: [name for name, (found, _) in sorted(families.items()) if found == verdict]
          for verdict in (PASSED, FAILED, MISSING)}  # fmt: skip
    total = max(len(families), 1)
    share = 100 * len(by[PASSED]) / total
    many = "all samples" if samples is None else f"{samples} samples of each operator"
    lines = [
        f"## {dtype}",
        "",
        f"{many[0].upper()}{many[1:]}.",
        "",
        f"{len(by[PASSED])} of {len(families)} families pass ({share:.1f} %), {len(by[FAILED])} "
        f"fail, {len(by[MISSING])} are missing.",
        "",
        "### Failed",
        "",
        *(f"- `{name}`: {families[name][1]}" for name in by[FAILED]),
        "",
        "### Missing",
        "",
        *wrapped(by[MISSING]),
        "",
        "### Computed on the host",
        "",
        *(f"- `{name}`: {', '.join(sorted(calls))}" for name, calls in sorted(host_calls.items())),
        "",
        "### Passed",
        "",
        *wrapped(by[PASSED]),
        "",
    ]
    return "\n".join(lines)


def with_part(page: str, part: str) -> str:
    """The page with a format's part in place of the one that was there, or behind the others."""
    heading = part.partition("\n")[0]
    _, *parts = re.split(r"^(?=## )", page, flags=re.MULTILINE)
    kept = [one for one in parts if one.partition("\n")[0] != heading]
    return HEAD + "\n".join(one.strip("\n") + "\n" for one in sorted([*kept, part], key=place))


def place(part: str) -> int:
    """Where a format's part stands on the page: float32 first."""
    return not part.startswith("## float32")


def wrapped(names: list[str], columns: int = 100) -> list[str]:
    """Names one after the other, in lines."""
    lines = [""]
    for name in names:
        if len(lines[-1]) + len(name) + 1 > columns:
            lines.append("")
        lines[-1] += f"{' ' if lines[-1] else ''}{name}"
    return lines
