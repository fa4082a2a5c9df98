"""The standard's extension for Fourier transforms: `torpor.fft`, whose meanings are the same."""

from torpor.tensor import fft as named

__all__ = """
    fft fftfreq fftn fftshift hfft ifft ifftn ifftshift ihfft irfft irfftn rfft rfftfreq rfftn
    """.split()  # noqa: SIM905 (a table that is read)
globals().update({name: getattr(named, name) for name in __all__})
