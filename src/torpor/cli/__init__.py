"""Floor 10: the command line. `main` is the entry point of `torpor`."""

from torpor.cli.main import main

__all__ = ["main"]
