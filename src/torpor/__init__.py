"""torpor: a lazy tensor library with its own compiler.

`torpor.f(x)` and `x.f()` mean the same for every name in `FUNCTIONS`; the meanings are PyTorch's.
"""

from __future__ import annotations

import importlib
import os
import sys
from contextlib import suppress
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from torpor.base.dtypes import DType as DType
    from torpor.base.dtypes import dtypes as dtypes
    from torpor.base.settings import Context as Context
    from torpor.device import Buffer as Buffer
    from torpor.device import Device as Device
    from torpor.ir.variable import Variable as Variable
    from torpor.nn.torch_files import load as load
    from torpor.nn.torch_files import save as save
    from torpor.tensor import Generator as Generator
    from torpor.tensor import Tensor as Tensor
    from torpor.tensor import as_tensor as as_tensor
    from torpor.tensor import checkpoint as checkpoint
    from torpor.tensor import einsum as einsum
    from torpor.tensor import enable_grad as enable_grad
    from torpor.tensor import grad as grad
    from torpor.tensor import lower as lower
    from torpor.tensor import manual_seed as manual_seed
    from torpor.tensor import no_grad as no_grad
    from torpor.tensor import set_default_dtype as set_default_dtype
    from torpor.tensor import value_and_grad as value_and_grad
    from torpor.tensor.custom_kernel import custom_kernel as custom_kernel
    from torpor.tensor.looping import cond as cond
    from torpor.tensor.looping import scan as scan
    from torpor.tensor.looping import while_loop as while_loop
    from torpor.tensor.random import get_rng_state as get_rng_state
    from torpor.tensor.random import set_rng_state as set_rng_state
    from torpor.tensor.transforms import hessian as hessian
    from torpor.tensor.transforms import jacfwd as jacfwd
    from torpor.tensor.transforms import jacrev as jacrev
    from torpor.tensor.transforms import jvp as jvp
    from torpor.tensor.transforms import vjp as vjp
    from torpor.tensor.transforms import vmap as vmap

__version__ = "0.1.0"

# Functions of a tensor that are also its methods.
FUNCTIONS: Final = tuple(
    """
    abs absolute acos acosh adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
    adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d add addbmm addcdiv addcmul addmm
    addmv addr adjoint alias_copy as_strided as_strided_copy as_strided_scatter
    all allclose amax amin aminmax angle any arccos arccosh arcsin
    arcsinh arctan arctan2 arctanh argmax argmin argsort argwhere asin asinh atan atan2 atanh
    avg_pool1d avg_pool2d avg_pool3d baddbmm batch_norm bernoulli binary_cross_entropy
    binomial multinomial poisson
    binary_cross_entropy_with_logits bincount bitcast bitwise_and bitwise_left_shift bitwise_not
    bitwise_or bitwise_right_shift bitwise_xor bmm broadcast_to bucketize cast ceil celu
    cholesky cholesky_inverse cholesky_solve chunk clamp clamp_max clamp_min clip clone
    combinations complex conj conj_physical constant_pad_nd contiguous conv1d conv2d conv3d
    conv_transpose1d conv_transpose2d conv_transpose3d copysign corrcoef cos cosh count_nonzero
    cov cross cross_entropy cummax cummin cumprod cumsum cumulative_trapezoid deg2rad det detach
    detach_copy diag diag_embed diagflat diagonal diagonal_copy diagonal_scatter diff digamma
    dist div divide dot dropout dsplit elu empty_like eq equal erf erfc erfinv exp exp2 expand
    expand_as expand_copy expm1 fill fix flatten flip fliplr flipud float_power floor
    floor_divide fmax fmin fmod frac frexp full_like gather gcd ge gelu ger get_device glu greater
    greater_equal group_norm gt hardshrink hardsigmoid hardswish hardtanh heaviside histc
    histogram histogramdd hsplit huber_loss hypot i0 igamma igammac index_add index_copy
    index_fill index_put index_reduce index_select inner instance_norm inverse is_complex is_conj
    is_contiguous is_floating_point is_inference is_neg is_nonzero is_same_size is_signed isclose
    isfinite isin isinf
    isnan isneginf isposinf isreal istft kl_div kron kthvalue l1_loss layer_norm lcm ldexp le
    leaky_relu lerp less less_equal lgamma linear log log10 log1p log2 log_softmax logaddexp
    logaddexp2 logcumsumexp logdet logical_and logical_not logical_or logical_xor logit logsigmoid
    logsumexp lt masked_fill masked_scatter masked_select matmul matrix_exp matrix_power max
    max_pool1d max_pool2d max_pool3d max_unpool1d max_unpool2d max_unpool3d maximum mean median
    min minimum mish mm mode moveaxis movedim mse_loss msort mul multiply mv mvlgamma nan_to_num
    nanmean nanmedian nanquantile nansum narrow narrow_copy ne neg negative nelement nextafter
    nll_loss nonzero nonzero_static norm normalize not_equal numel one_hot ones_like outer pad
    permute permute_copy pinverse polar polygamma positive pow prelu prod put qr quantile quick_gelu
    rad2deg rand_like randint_like randn_like ravel reciprocal relu relu6 remainder renorm repeat
    repeat_interleave reshape reshape_as resolve_conj resolve_neg rms_norm roll rot90 round
    rsqrt rsub scaled_dot_product_attention scatter scatter_add scatter_reduce select
    select_copy select_scatter selu sgn shard shrink sigmoid sign signbit silu sin sinc sinh
    slice slice_copy slice_scatter slogdet smooth_l1_loss softmax softmin softplus softshrink
    softsign sort sparse_categorical_crossentropy split split_copy split_with_sizes
    split_with_sizes_copy sqrt square squeeze squeeze_copy std std_mean stft sub subtract sum
    sum_to_size svd swapaxes swapdims swish t t_copy take take_along_dim tan tanh tanhshrink
    tensor_split tensordot threshold tile topk trace transpose transpose_copy trapezoid trapz
    triangular_solve tril triu true_divide trunc unbind unbind_copy unflatten unfold unfold_copy
    unique unique_consecutive unravel_index unsafe_chunk unsafe_split unsqueeze unsqueeze_copy
    vander var var_mean vdot vecdot view_as view_as_complex view_as_real view_copy
    vsplit xlogy zeros_like
    """.split()  # noqa: SIM905 (a table that is read)
)
# Functions that make tensors, or take several: they are static methods of `Tensor` too.
MAKERS: Final = tuple(
    """
    arange atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes broadcast_tensors
    cartesian_prod cat column_stack concat concatenate dstack empty eye from_dlpack from_file
    from_numpy full glorot_uniform hstack kaiming_normal kaiming_uniform linspace logspace
    meshgrid normal ones range rand randint randn randperm row_stack scalar_tensor scaled_uniform
    searchsorted stack tril_indices triu_indices uniform vstack zeros
    """.split()  # noqa: SIM905 (a table that is read)
)

# Where everything else lives. All names are imported when they are first used, so that a room can
# be imported by itself and `import torpor` costs next to nothing. None: the module itself.
_NAMES: Final = {
    "torpor.base.dtypes": "DType dtypes",
    "torpor.base.errors": "RecompileWarning",
    "torpor.base.settings": "Context",
    "torpor.capture": "explain jit",
    "torpor.device": "Buffer Device",
    "torpor.explore": "explore",
    "torpor.ir.variable": "Variable",
    "torpor.nn.functional": "alpha_dropout bilinear cdist channel_shuffle conv_tbc "
    "cosine_embedding_loss cosine_similarity ctc_loss embedding embedding_bag "
    "feature_alpha_dropout hinge_embedding_loss margin_ranking_loss max_pool1d_with_indices "
    "native_channel_shuffle pairwise_distance pdist pixel_shuffle pixel_unshuffle "
    "poisson_nll_loss rrelu rrelu_ threshold_ triplet_margin_loss",
    "torpor.nn.native": "_batch_norm_with_update _chunk_cat _softmax_backward_data "
    "_upsample_bilinear2d_aa max_pool2d_with_indices_backward native_batch_norm native_group_norm "
    "native_layer_norm",
    "torpor.nn.recurrent": "gru gru_cell lstm lstm_cell rnn_relu rnn_relu_cell rnn_tanh "
    "rnn_tanh_cell",
    "torpor.nn.resampling": "grid_sampler_2d grid_sampler_3d",
    "torpor.nn.torch_files": "load save",
    "torpor.pipeline.journal": "mark",
    "torpor.profile": "profile",
    "torpor.source": "render",
    "torpor.tensor": "Generator Tensor as_tensor checkpoint einsum enable_grad grad lower "
    "manual_seed no_grad set_default_dtype value_and_grad",
    "torpor.tensor.amp": "GradScaler autocast get_autocast_dtype is_autocast_enabled",
    "torpor.tensor.backends": "get_float32_matmul_precision get_num_threads set_flush_denormal "
    "set_float32_matmul_precision set_num_threads",
    "torpor.tensor.checkpoint": "checkpoint_sequential",
    "torpor.tensor.custom_kernel": "custom_kernel",
    "torpor.tensor.formats": "BFloat16Tensor BoolTensor ByteTensor CharTensor DoubleTensor "
    "FloatTensor HalfTensor IntTensor LongTensor ShortTensor can_cast finfo iinfo imag is_tensor "
    "promote_types real result_type",
    "torpor.tensor.lu": "lu_unpack",
    "torpor.tensor.looping": "cond scan while_loop",
    "torpor.tensor.linalg": "chain_matmul",
    "torpor.tensor.low_rank": "lobpcg pca_lowrank svd_lowrank",
    "torpor.tensor.masked": "segment_reduce",
    "torpor.tensor.memory": "asarray empty_permuted empty_strided frombuffer",
    "torpor.tensor.mode": "are_deterministic_algorithms_enabled get_default_device "
    "inference_mode is_anomaly_enabled set_default_device set_grad_enabled "
    "use_deterministic_algorithms",
    "torpor.tensor.namespace": "where",
    "torpor.tensor.random": "get_rng_state set_rng_state",
    "torpor.tensor.reflections": "geqrf orgqr ormqr",
    "torpor.tensor.seeding": "initial_seed seed",
    "torpor.tensor.signal_windows": "bartlett_window blackman_window hamming_window hann_window "
    "kaiser_window",
    "torpor.tensor.size": "Size",
    "torpor.tensor.statistics": "gradient",
    "torpor.tensor.text": "set_printoptions",
    "torpor.tensor.transforms": "hessian jacfwd jacrev jvp vjp vmap",
}
PLACES: Final[dict[str, tuple[str, str | None]]] = {
    **{name: (module, name) for module, names in _NAMES.items() for name in names.split()},
    "accelerator": ("torpor.tensor.cuda", None),
    "random": ("torpor.tensor.seeding", None),
    "special": ("torpor.tensor.special_names", None),
    "utils": ("torpor.nn.utilities", None),
    "OutOfMemoryError": ("builtins", "MemoryError"),
    "TinyJit": ("torpor.capture", "jit"),
    "dtype": ("torpor.base.dtypes", "DType"),
    "get_default_dtype": ("torpor.tensor.mode", "get_default_dtype"),
    "is_grad_enabled": ("torpor.tensor.mode", "is_grad_enabled"),
    **{name: ("math", name) for name in ("e", "inf", "nan", "pi")},
    **{name: (f"torpor.nn.{name}", None) for name in ("distributions", "func", "optim")},
    **{
        name: (f"torpor.tensor.{name}", None)
        for name in """
            amp autograd backends cuda fft linalg masked quasirandom testing
        """.split()  # noqa: SIM905 (a table that is read)
    },
    **{name: (f"torpor.{name}", None) for name in ("array_api", "device", "nn", "tensor")},
}
DTYPES: Final = tuple(
    """
    bool int4 uint4 int8 int16 int32 int64 uint8 uint16 uint32 uint64 float8_e4m3fn float8_e5m2
    float16 bfloat16 float32 float64 half float double short int long complex64 complex128 cfloat
    cdouble
    """.split()  # noqa: SIM905 (a table that is read)
)
_ROOMS: Final = frozenset({"ir", "view", "kernel", "source", "capture"})


class _Callable(ModuleType):
    """A room whose name is a function's too: `torpor.device("CPU:1")` is the context that chooses
    the default device, `torpor.tensor([1, 2])` makes a tensor as PyTorch's does, and `profile` and
    `explore` are functions of the rooms that they are named for.
    """

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        last = self.__name__.removeprefix("torpor.")
        home = "torpor.tensor" if last == "device" else self.__name__
        function = getattr(importlib.import_module(home), _CALLED[last])
        return function(*arguments, **options)

    def _kind(self) -> Any:
        """What names of devices are instances of."""
        if self.__name__ != "torpor.device":
            raise TypeError(f"{self.__name__} is no type")
        return self.registry.DeviceName

    def __instancecheck__(self, instance: Any) -> bool:
        return isinstance(instance, self._kind())

    def __or__(self, other: Any) -> Any:  # `device: torpor.device | None`
        return self._kind() | other

    def __ror__(self, other: Any) -> Any:
        return other | self._kind()

    def __reduce__(self) -> Any:
        return importlib.import_module, (self.__name__,)


_CALLED: Final = {name: name for name in ("device", "explore", "profile")} | {"tensor": "Tensor"}


class _Package(ModuleType):
    """Makes such rooms callable when the import system binds them here."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _CALLED and isinstance(value, ModuleType):
            value.__class__ = _Callable
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


class _Elsewhere:
    """Finds `import torpor.optim`, and others that are at the top by name only, where they are;
    modules inside of them, as `import torpor.autograd.functional`; and those that are there by name
    only, as `torpor.nn.parameter`.
    """

    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        """The module's spec, if it is one of these."""
        loader: Any = self
        elsewhere = name.startswith("torpor.") and self._found(name) is not None
        return ModuleSpec(name, loader, is_package=True) if elsewhere else None

    def _found(self, name: str) -> ModuleType | None:
        """The module that the name stands for, if it is elsewhere."""
        room, _, last = name.rpartition(".")
        if room == "torpor":
            place, attribute = PLACES.get(last, (name, None))
            return importlib.import_module(place) if place != name and attribute is None else None
        if room == "torpor.base":  # which says below what is inside of others
            return None
        parent = sys.modules[room]
        if last in importlib.import_module("torpor.base.missing").INSIDE.get(parent.__name__, ()):
            return parent
        if parent.__name__ == room:
            return None
        with suppress(ModuleNotFoundError):  # a package's own, once and under its own name
            return importlib.import_module(f"{parent.__name__}.{last}")
        held = getattr(parent, last, None)
        return held if isinstance(held, ModuleType) else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module that it is, with its own spec in the alias's."""
        module = self._found(spec.name)
        assert module is not None
        spec.loader_state = module.__spec__, getattr(module, "__path__", [])
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing more: it has run where it is."""
        assert module.__spec__ is not None
        module.__spec__, module.__path__ = module.__spec__.loader_state


class _Missing:
    """Says what there is instead of a module that nobody found."""

    def find_spec(self, name: str, *_: Any) -> None:
        """Raise for names of PyTorch's that have something instead."""
        own, missing = name.removeprefix("torpor."), importlib.import_module("torpor.base.missing")
        if own != name and own in missing.INSTEAD:
            raise ModuleNotFoundError(str(missing.MissingNameError("torpor", own)), name=name)


sys.meta_path.insert(0, _Elsewhere())
sys.meta_path.append(_Missing())


def _is_in_place(name: str) -> bool:
    """Whether it is a method that changes a tensor, which is a function too, as `add_(x, y)`."""
    if name.startswith("_") or not name.endswith("_"):
        return False
    return hasattr(importlib.import_module("torpor.tensor").Tensor, name)


def __getattr__(name: str) -> Any:
    if name in PLACES:
        module, attribute = PLACES[name]
        value = importlib.import_module(module)
        if attribute is not None:
            value = getattr(value, attribute)
    elif name in FUNCTIONS or _is_in_place(name):
        value = importlib.import_module("torpor.tensor.namespace").function_of(name)
    elif name in MAKERS:
        value = getattr(importlib.import_module("torpor.tensor").Tensor, name)
    elif name in DTYPES:
        value = getattr(importlib.import_module("torpor.base.dtypes").dtypes, name)
    elif name in _ROOMS:
        value = importlib.import_module(f"torpor.{name}")
    else:
        importlib.import_module("torpor.base.missing").names_of("torpor", lambda: __all__)(name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


newaxis: Final = None
# What PyTorch calls ways of lying in memory: functions take them, and no value depends on them.
strided, contiguous_format, preserve_format, channels_last, channels_last_3d = _MEMORY = (
    "strided", "contiguous_format", "preserve_format", "channels_last", "channels_last_3d",
)  # fmt: skip

_PUBLIC: Final = [name for name in PLACES if not name.startswith("_")]
__all__ = ["newaxis", *_MEMORY, *_PUBLIC, *FUNCTIONS, *MAKERS, *DTYPES]


if {"VIZ", "TORPOR_VIZ"} & os.environ.keys():  # an error on the way to the first kernel is told
    from torpor.base import settings as _settings

    if _settings.at_start("VIZ"):
        importlib.import_module("torpor.pipeline.journal").listen_for_failures()
