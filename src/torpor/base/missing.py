"""A name that a namespace does not have: an error that says what it has instead."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NoReturn

from torpor.base.errors import TorporError

# The namespaces of users' names, as far as they have been imported.
_places: Final[dict[str, Callable[[], Iterable[str]]]] = {}


# What a tensor is asked for under names of NumPy, JAX, TensorFlow, pandas and MLX, and of what
# PyTorch has and torpor leaves out; and what is to be written here.
INSTEAD: Final = {
    name: instead
    for line in """
    astype as_type: cast
    expand_dims: unsqueeze
    conjugate: conj
    asnumpy to_numpy: numpy
    tobytes tofile dump: numpy().tobytes()
    flat: flatten()
    power: pow
    reduce_sum: sum
    reduce_mean: mean
    reduce_max: amax
    reduce_min: amin
    reduce_prod: prod
    reduce_any: any
    reduce_all: all
    argpartition partition: topk
    compress: x[mask]
    choose: gather
    at: x[i] = value, or index_put
    get_shape set_shape dims: shape
    rank: ndim
    block_until_ready eval compute: realize
    device_put copy_to: to
    stop_gradient: detach
    value_counts: unique(return_counts=True)
    isnull isna: isnan
    fillna: nan_to_num
    notna: isfinite
    apply map map_ map2_: a function of tensors, or torpor.vmap
    data_ptr untyped_storage storage: data() or __dlpack__()
    resize resize_ resize_as resize_as_: reshape, pad or x[...]
    set_: x.data = y
    to_dlpack: x.__dlpack__(), and torpor.from_dlpack of any library's tensor
    lu: torpor.linalg.lu_factor (both triangles in one matrix), or torpor.linalg.lu
    geqrf ormqr orgqr: torpor.geqrf, torpor.ormqr and torpor.orgqr
    ldl_factor ldl_factor_ex ldl_solve: torpor.linalg.lu_factor, lu_solve and cholesky
    lstsq: torpor.linalg.lstsq
    eig symeig: torpor.linalg.eig or torpor.linalg.eigh
    solve: torpor.linalg.solve
    to_sparse to_sparse_csr to_sparse_coo coalesce: dense tensors only
    quantize_per_tensor dequantize q_scale: torpor.nn.quantised
    names rename refine_names align_to: tensors without names of axes
    share_memory share_memory_ pin_memory: to
    compile compiler script: jit
    set_num_interop_threads get_num_interop_threads: set_num_threads
    is_inference_mode_enabled: is_grad_enabled
    default_generator: torpor.manual_seed and get_rng_state, or a Generator
    signal: torpor.hann_window and its like
    profiler: torpor.profile
    Variable: Tensor, which takes requires_grad
    register_backward_hook: register_full_backward_hook
    DataLoader Dataset TensorDataset random_split: torpor.nn.data
    distributed DistributedDataParallel: shard, over devices of one process
    hub: torpor.load, of a file
    onnx: torpor.save, of a state_dict
    SparseAdam: Adam, as gradients are dense
    set_default_tensor_type: set_default_dtype and set_default_device
    lu_factor lu_solve: torpor.linalg.lu_factor and torpor.linalg.lu_solve
    sparse_coo_tensor sparse_csr_tensor: zeros(...).index_put_(indices, values, accumulate=True)
    chalf complex32: complex64, as halves are computed in float32
    """.strip().splitlines()
    for names, instead in [line.strip().split(": ")]
    for name in names.split()
}
# Modules of PyTorch's inside of a room, all of whose names are the room's own.
INSIDE: Final = {
    room: frozenset(names.split())
    for line in """
    torpor.nn: parameter modules activation batchnorm container conv dropout instancenorm linear \
loss normalization padding pooling rnn sparse upsampling
    torpor.nn.utils: clip_grad convert_parameters fusion
    torpor.nn.data: dataloader dataset distributed sampler
    torpor.nn.optim: adadelta adagrad adam adamax adamw asgd nadam radam rmsprop rprop sgd
    torpor.nn.distributions: bernoulli beta binomial categorical cauchy constraint_registry \
dirichlet distribution exponential gamma gumbel half_normal independent kl laplace log_normal \
mixture_same_family multinomial multivariate_normal normal one_hot_categorical poisson \
relaxed_bernoulli relaxed_categorical studentT transformed_distribution transforms uniform
    torpor.tensor.autograd: function
    """.strip().splitlines()
    for room, names in [line.strip().split(": ")]
}
_PAGE: Final = "; for names of PyTorch or NumPy see docs/coming-from-pytorch.md"


class MissingNameError(TorporError, AttributeError):
    """A name that is not there. `hasattr` asks often and reads nothing, so what is to be said is
    worked out when it is read.
    """

    def __str__(self) -> str:
        place, name = self.args
        near = INSTEAD.get(name) or ", ".join(_near(place, name))
        instead = f"; there is {near}" if near else ""
        return f"{place} has no {name!r}{instead}{_PAGE}"


def missing(place: str, name: str) -> NoReturn:
    """Say that the namespace `place` has no `name`; Python's own protocols want no more words."""
    if name.startswith("_"):
        raise AttributeError(f"{place} has no attribute {name!r}")
    raise MissingNameError(place, name)


def names_of(
    place: str, names: Callable[[], Iterable[str]], room: str | None = None
) -> Callable[[str], Any]:
    """Make the names of the namespace `place` known; gives its `__getattr__`, which is asked for
    what it lacks. `room` is the module, where that has another name.
    """
    _places[place] = names
    inside = INSIDE.get(room or place, ())

    def lookup(name: str) -> Any:
        if name in inside:
            return sys.modules[room or place]
        missing(place, name)

    return lookup


def own_functions(module: Mapping[str, Any]) -> list[str]:
    """The names of the public functions that a module, by its globals, defines: its `__all__`."""
    return [
        name for name, value in module.items()
        if inspect.isfunction(value) and value.__module__ == module["__name__"] and name[0] != "_"
    ]  # fmt: skip


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The one of the names that is nearest, as the end of an error's text; nothing if none is."""
    import difflib  # slow to import, and rarely needed

    near = difflib.get_close_matches(name.casefold(), sorted(names), 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _near(place: str, name: str) -> list[str]:
    """What a user could write: the same name elsewhere, else near ones here."""
    import difflib  # slow to import, and rarely needed

    same = [f"{other}.{known}" for other in _places for known in _known(other)
            if other != place and known.casefold() == name.casefold()]  # fmt: skip
    same.sort(key=lambda known: not known.endswith(name))
    return same or difflib.get_close_matches(name, _known(place), 3)


def _known(place: str) -> list[str]:
    return [name for name in _places[place]() if not name.startswith("_")]
