"""What tests of caches on disk share."""

from torpor.pipeline import compile as compiling
from torpor.pipeline import recipe


def as_a_new_process() -> None:
    """Forget what this process has compiled, and the graphs that hold it."""
    recipe.forget()
    compiling._executables.clear()
