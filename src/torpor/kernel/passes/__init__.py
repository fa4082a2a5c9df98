"""From an optimised kernel to a linear program: copies, vectors, index widths, one order."""
