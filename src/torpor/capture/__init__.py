"""Floor 7: the jit. It traces whole functions and replays their kernels while its guards hold."""

from torpor.capture.jitted import Jitted, explain, jit

__all__ = ["Jitted", "explain", "jit"]
