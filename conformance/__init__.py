"""How much of PyTorch's operators torpor has: `make conformance`."""
