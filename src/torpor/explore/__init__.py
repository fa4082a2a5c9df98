"""Floor 9: the explorer, which shows what happened from tensors to machine code, in a browser or a
terminal.

It reads what `pipeline/journal.py` wrote, as data, and nothing else.
"""

from torpor.explore.reading import read
from torpor.explore.serve import Server, explore
from torpor.explore.trace import Kernel, Trace

__all__ = ["Kernel", "Server", "Trace", "explore", "read"]
