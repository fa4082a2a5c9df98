"""`python -m conformance`: PyTorch's own operator samples, computed by torpor and compared.

    python -m conformance                    four samples of each operator
    python -m conformance --all              all of them
    python -m conformance --only add conv    operators whose names begin so
    python -m conformance --dtype float16    samples of another format
    python -m conformance --second           gradients of gradients, too
    python -m conformance --reference        its larger set of samples, values alone

Writes the part of its format in conformance/results.md (after a whole run) and prints what failed.
Needs torch and expecttest.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path

NEEDED = ("torch", "expecttest")


def main() -> int:
    """Run the sweep; the exit status is 0 also where what it needs is not installed."""
    absent = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if absent:
        print(f"conformance needs {' and '.join(absent)}: nothing was compared")
        return 0
    from conformance.report import with_part, written
    from conformance.sweep import REFERENCE, SECOND, host_calls, sweep

    parser = argparse.ArgumentParser(prog="python -m conformance")
    parser.add_argument("--all", action="store_true", help="every sample of each operator")
    parser.add_argument("--samples", type=int, default=4, help="samples of each operator")
    parser.add_argument("--only", nargs="*", default=(), help="beginnings of names")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--seconds", type=int, default=60, help="time for one operator")
    parser.add_argument("--second", action="store_true", help="compare gradients of gradients")
    parser.add_argument("--reference", action="store_true", help="the larger set of samples")
    parser.add_argument("--out", default="", help="where to write the results")
    chosen = parser.parse_args()
    count = None if chosen.all else chosen.samples
    SECOND.extend([True] * chosen.second)
    REFERENCE.extend([True] * chosen.reference)
    families = sweep(chosen.dtype, count, tuple(chosen.only), chosen.seconds)
    default = "" if chosen.only or chosen.reference else str(Path(__file__).parent / "results.md")
    text = written(families, chosen.dtype, count, host_calls)
    if path := chosen.out or default:
        page = Path(path).read_text(encoding="utf-8") if Path(path).exists() else ""
        Path(path).write_text(with_part(page, text), encoding="utf-8")
    print(text.partition("\n\n### ")[0])
    return 0


if __name__ == "__main__":
    sys.exit(main())
