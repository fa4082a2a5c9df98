"""The errors that torpor raises. Each is also the built-in error that Python would raise, and a
RuntimeError, which PyTorch's are.
"""


class TorporError(RuntimeError):
    """Base of every error that torpor raises on purpose."""


class ShapeError(TorporError, ValueError):
    """Shapes or axes that do not fit the operation."""


class AxisError(ShapeError, IndexError):
    """An axis that a tensor does not have."""


class DTypeError(TorporError, TypeError):
    """A number format that is unknown or does not fit the operation."""


class NoPartError(DTypeError, AttributeError):
    """The imaginary part of what has none: `hasattr` is False of it."""


class IndexTypeError(DTypeError, IndexError):
    """An index of a format that says no place."""


class DeviceError(TorporError):
    """An unknown device, a device that cannot be opened, or devices that were mixed."""


class MemoryStateError(TorporError):
    """A buffer that is allocated twice, read before it was allocated, or of the wrong size."""


class OptError(TorporError, ValueError):
    """An optimisation that cannot be applied; the message names it and says why."""


class MemoryLimitError(TorporError, MemoryError):
    """What is computed takes more memory than `memory_limit` allows, however it is done."""


class CompileError(TorporError):
    """A target's compiler refused the generated text."""


class ContractError(TorporError, AssertionError):
    """An internal fault: a pass produced a node that its stage does not allow."""


class SettingError(TorporError, ValueError):
    """An unknown setting, or a value that it cannot take."""


class OutOfBoundsError(TorporError, IndexError):
    """An index lies outside the axis that it selects from."""


class DivisionByZeroError(TorporError, ZeroDivisionError):
    """An integer was divided by zero."""


class ValueRangeError(TorporError, ValueError):
    """A value that the operation does not take: a negative shift count, an unknown mode."""


class LinAlgError(ValueRangeError):
    """A matrix that has no inverse, or not the factors that are asked for."""


class GradientError(TorporError):
    """A gradient that cannot be taken, or a write that would make one wrong."""


class StateError(TorporError, KeyError):
    """Names of a saved state that do not fit those of a model."""

    __str__ = TorporError.__str__  # without the quotes of KeyError's


class ParseError(TorporError, ValueError):
    """IR text that cannot be read."""


class RecompileWarning(UserWarning):
    """A line compiles at each call."""


class CaptureError(TorporError):
    """`JIT=strict` refuses a function that does what no guard can cover; the message says what."""
