"""What a sweep found, as a page."""

from __future__ import annotations

from collections.abc import Mapping

PASSED, FAILED, MISSING = "passed", "failed", "missing"


def written(
    families: Mapping[str, tuple[str, str]],
    dtype: str,
    samples: int | None,
    host_calls: Mapping[str, set[str]],
) -> str:
    """The page: how many families passed, and the names of all, with reasons."""
    by = {verdict: [name for name, (found, _) in sorted(families.items()) if found == verdict]
          for verdict in (PASSED, FAILED, MISSING)}  # fmt: skip
    total = max(len(families), 1)
    share = 100 * len(by[PASSED]) / total
    many = "all samples" if samples is None else f"{samples} samples of each operator"
    lines = [
        "# PyTorch's operators",
        "",
        f"{dtype}, {many}, values and gradients; written by `make conformance`.",
        "",
        f"{len(by[PASSED])} of {len(families)} families pass ({share:.1f} %), {len(by[FAILED])} "
        f"fail, {len(by[MISSING])} are missing.",
        "",
        "## Failed",
        "",
        *(f"- `{name}`: {families[name][1]}" for name in by[FAILED]),
        "",
        "## Missing",
        "",
        *wrapped(by[MISSING]),
        "",
        "## Computed on the host",
        "",
        *(f"- `{name}`: {', '.join(sorted(calls))}" for name, calls in sorted(host_calls.items())),
        "",
        "## Passed",
        "",
        *wrapped(by[PASSED]),
        "",
    ]
    return "\n".join(lines)


def wrapped(names: list[str], columns: int = 100) -> list[str]:
    """Names one after the other, in lines."""
    lines = [""]
    for name in names:
        if len(lines[-1]) + len(name) + 1 > columns:
            lines.append("")
        lines[-1] += f"{' ' if lines[-1] else ''}{name}"
    return lines
