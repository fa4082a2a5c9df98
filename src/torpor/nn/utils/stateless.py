"""`functional_call` under its older name; `torpor.func.functional_call` is the same."""

from torpor.nn.func import functional_call

__all__ = ["functional_call"]
