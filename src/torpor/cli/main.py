"""`torpor COMMAND`: commands, help texts and exit statuses."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from torpor.base.errors import TorporError

INTERRUPTED: Final = 130  # what shells report for a program that Ctrl-C ended


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    top = argparse.ArgumentParser(
        prog="torpor", description="A lazy tensor library with its own compiler."
    )
    top.add_argument("--version", action="store_true", help="print the version and exit")
    commands = top.add_subparsers(dest="command", metavar="COMMAND")
    add_demo(commands)
    info = commands.add_parser("info", help="devices, compiler, vector width, caches")
    info.add_argument("--json", action="store_true", help="print JSON instead of a table")
    add_cache(commands)
    add_profile(commands)
    add_explore(commands)
    return top


def add_cache(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The options of `torpor cache`."""
    cache = commands.add_parser(
        "cache",
        help="show, share or clear what is kept on disk",
        description="Compiled kernels, and the opts that timed searches (BEAM=n) found.",
    )
    cache.add_argument("--clear", action="store_true", help="remove every kept kernel")
    cache.add_argument("--clear-search", action="store_true", help="forget what searches found")
    cache.add_argument("--export", metavar="FILE", help="write what searches found to a file")
    cache.add_argument(
        "--import", dest="source", metavar="FILE", help="add what searches found elsewhere"
    )
    cache.add_argument("--json", action="store_true", help="print JSON instead of text")


def add_profile(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The options of `torpor profile`."""
    profile = commands.add_parser(
        "profile",
        help="run a script and show where its time goes",
        description="Runs a script as Python would and shows, by its lines, what its time went to: "
        "imports, traces of the jit, scheduling, compiling, launches and kernels; and what was "
        "compiled again, and why. The exit status is the script's.",
    )
    profile.add_argument("--top", type=positive, default=20, help="show so many lines (20)")
    profile.add_argument("--chrome", metavar="FILE", help="write a trace for ui.perfetto.dev")
    profile.add_argument("--pstats", metavar="FILE", help="write statistics for pstats")
    profile.add_argument(
        "--json",
        action="store_true",
        help="print JSON instead of a table; what the script prints goes to standard error",
    )
    profile.add_argument("script", help="a Python file")
    profile.add_argument("arguments", nargs=argparse.REMAINDER, help="the script's arguments")


def add_explore(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The options of `torpor explore`."""
    explore = commands.add_parser(
        "explore",
        help="see every step from tensor to machine code, in a browser",
        description="Runs a script as Python would and records what happens, or reads a trace that "
        "VIZ=1 or VIZ=file wrote, and serves a page that shows it, on this machine only. With one "
        "of the options for the terminal it prints instead. The exit status is the script's.",
    )
    explore.add_argument("--trace", metavar="FILE", help="show this trace")
    explore.add_argument("--static", metavar="DIR", help="write the page for any file server")
    explore.add_argument("--port", type=number, default=0, help="serve at this port (any)")
    explore.add_argument("--list", action="store_true", help="print a line for each kernel")
    explore.add_argument("--kernel", metavar="NAME", help="print one; `*` matches, `NAME#2` counts")
    explore.add_argument("--line", metavar="FILE:N", help="only kernels of this line")
    explore.add_argument(
        "--pass", dest="stage", metavar="NAME", help="print what a pass and its rules did"
    )
    explore.add_argument(
        "--check", action="store_true", help="execute every step; print the first wrong ones"
    )
    explore.add_argument("--json", action="store_true", help="print kernels as JSON")
    explore.add_argument("--until-closed", action="store_true", help=argparse.SUPPRESS)
    explore.add_argument("script", nargs="?", help="a Python file")
    explore.add_argument("arguments", nargs=argparse.REMAINDER, help="the script's arguments")


def add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The options of `torpor demo`."""
    demo = commands.add_parser(
        "demo",
        help="train a small network on real handwritten digits",
        description="Trains a small convolutional network on 8,000 real handwritten digits and "
        "tests it on 2,000 others. Exit status 1 if it gets fewer than 97.5 % of them right.",
    )
    demo.add_argument("--epochs", type=positive, help="passes over the data (6)")
    demo.add_argument("--images", type=images, help="train on the first so many digits only (8000)")
    demo.add_argument("--seed", type=seed, help="same seed, same result (0)")
    demo.add_argument("--out", help="folder for weights and pictures (torpor-demo)")
    demo.add_argument(
        "--image",
        action="append",
        default=[],
        help="a picture of a digit to read, with the weights that are in the folder, if any are",
    )
    demo.add_argument("--train", action="store_true", help="train even where weights are")
    demo.add_argument("--against", choices=["torch"], help="race an installed peer")
    demo.add_argument(
        "--json", action="store_true", help="results as JSON; everything else to standard error"
    )


def number(text: str) -> int:
    """An integer."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def within(least: int, most: int, otherwise: str) -> Callable[[str], int]:
    """What reads an integer between two, of which it says so `otherwise`."""

    def read(text: str) -> int:
        value = number(text)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(otherwise)
        return value

    return read


positive = within(1, sys.maxsize, "it must be at least 1")
seed = within(0, (1 << 63) - 1, "it must be at least 0, and below 2**63")
images = within(64, 8000, "there are 8000, and a batch takes 64")


def run_command(arguments: argparse.Namespace) -> int:
    """Run the chosen command; its exit status."""
    if arguments.version:
        from importlib.metadata import version

        print(version("torpor"))
        return 0
    room = importlib.import_module(f"torpor.cli.{arguments.command}")  # what others need is slow
    return int(getattr(room, f"run_{arguments.command}")(arguments))


def main(argv: Sequence[str] | None = None) -> int:
    """Run `torpor` with `argv` (by default the process's); gives the exit status."""
    top = parser()
    arguments = top.parse_args(argv)
    if arguments.command is None and not arguments.version:
        top.print_help()
        return 2
    if isinstance(sys.stdout, io.TextIOWrapper):  # what it cannot write is written in escapes
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        status = run_command(arguments)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # who reads has seen enough
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (TorporError, OSError) as error:
        print(f"torpor: {error}", file=sys.stderr)
        return 1
