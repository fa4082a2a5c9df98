"""Methods of PyTorch's and NumPy's that tensors do not have, so that they can say so.

They are class attributes: a `__getattr__` would slow every look at a tensor's attributes down, an
eighth of what building an operation costs.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn

from torpor.base.missing import missing

# Each also with _ behind it, in place; those that are there by now are not touched.
_ABSENT: Final = tuple(
    """
    adjoint allclose angle apply as_strided astype bernoulli byte cauchy char cholesky conj copy
    corrcoef cov cross cuda data_ptr det detach diag diag_embed diagflat dist dsplit equal
    exponential fill_diagonal fliplr flipud fmax fmin frexp geometric geqrf get_device grad_fn
    hardshrink histogram hsplit igamma igammac imag inner inverse is_complex is_cuda is_nonzero
    is_same_size is_signed is_sparse isclose isneginf isposinf isreal istft kron layout
    log_normal logaddexp logaddexp2 logdet lu map matrix_exp matrix_power multinomial mvlgamma
    names nanmean nanmedian nanquantile nansum ndimension new_empty new_tensor pin_memory
    pinverse prelu put qr quantile random real register_hook resize resize_as retain_grad rot90
    share_memory short signbit slogdet split_with_sizes squeeze stft storage storage_offset
    stride sum_to_size svd swapaxes t tensor_split tobytes trace transpose triangular_solve
    type_as unsqueeze untyped_storage vdot vsplit
    """.split()  # noqa: SIM905 (a table that is read)
)


class _Absent:
    """A name that is not there: `hasattr` is False, and the error says what there is instead."""

    def __init__(self, name: str):
        self.name = name

    def __get__(self, instance: object, owner: type) -> NoReturn:
        missing("Tensor", self.name)


def say_what_is_absent(owner: type) -> None:
    """Give a class those of the names that it does not have."""
    there = set(dir(owner))
    for name in _ABSENT:
        for spelling in {name, f"{name}_"} - there:
            setattr(owner, spelling, _Absent(spelling))


def without_absent(owner: type, names: Any) -> list[str]:
    """The names that are there."""
    absent = {
        name for base in owner.__mro__ for name, v in vars(base).items() if type(v) is _Absent
    }
    return [name for name in names if name not in absent]
