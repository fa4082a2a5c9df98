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
    acos acosh addbmm addcdiv addcmul addmm addmv addr adjoint allclose angle apply arccos arccosh
    arcsin arcsinh arctan arctan2 arctanh as_strided asin asinh astype atan atan2 atanh baddbmm
    bernoulli byte cauchy char cholesky clamp_max clamp_min conj copy copysign corrcoef cosh cov
    cross cuda data_ptr deg2rad detach det diag diag_embed diagflat digamma dist divide dsplit eq
    equal erfc erfinv exponential fill_diagonal fix fliplr flipud float_power fmax fmin frac frexp
    gcd ge geometric geqrf get_device grad_fn gt hardshrink heaviside histogram hsplit hypot i0
    igamma igammac imag inner inverse is_complex is_cuda is_nonzero is_same_size is_signed is_sparse
    isclose isneginf isposinf isreal istft kron layout lcm ldexp le lgamma log_normal logaddexp
    logaddexp2 logdet logit lt lu map matrix_exp matrix_power multinomial multiply mvlgamma names
    nanmean nanmedian nanquantile nansum ne ndimension negative new_empty new_tensor nextafter
    pin_memory pinverse polygamma prelu put qr quantile rad2deg random real register_hook renorm
    resize resize_as retain_grad rot90 sgn share_memory short signbit sinc sinh slogdet softmax
    split_with_sizes squeeze stft storage storage_offset stride subtract sum_to_size svd swapaxes t
    tensor_split tobytes trace transpose triangular_solve true_divide type_as unsqueeze
    untyped_storage vdot vsplit xlogy
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
