"""Examples that are made: how a function is called on small tensors, for those without their own.

A row says a call, then the names that are called so. `x.NAME()` is what a method without a row is
called as, `NAME` stands for the whole path of what is no method.
"""

from __future__ import annotations

import functools
import re
from typing import Any, Final

import torpor
from tools.reference.listing import Entry

VALUES: Final = {
    "x": "Tensor([[0.5, 0.25], [0.75, 1.0]])",
    "y": "Tensor([[0.25, 0.5], [1.0, 0.5]])",
    "v": "Tensor([0.5, 1.0])",
    "w": "Tensor([0, 1])",
    "n": "Tensor([[0, 1], [1, 0]])",
    "m": "Tensor([6, 4])",
    "a": "Tensor([[2.0, 1.0], [1.0, 3.0]])",
    "held": "Tensor([[True, False], [True, True]])",
    "c": "Tensor([1 + 2j, 3 - 1j])",
    "line": "Tensor.arange(8.0).reshape(1, 2, 4)",
    "image": "Tensor.arange(16.0).reshape(1, 1, 4, 4)",
}
ROWS: Final = """
x.NAME(y): arctan2 atan2 binary_cross_entropy binary_cross_entropy_with_logits copysign dist div
    divide eq equal float_power floor_divide fmax fmin fmod ge greater greater_equal gt heaviside
    huber_loss hypot inner is_same_size isclose allclose isin kl_div kron l1_loss le less less_equal
    logaddexp logaddexp2 logical_and logical_or logical_xor lt matmul maximum minimum mm mse_loss
    mul multiply ne nextafter not_equal pow remainder reshape_as rsub smooth_l1_loss sub subtract
    true_divide vecdot view_as xlogy add ldexp linear tensordot complex polar expand_as type_as
m.NAME(w + 4): gcd lcm bitwise_and bitwise_or bitwise_xor
m.NAME(1): bitwise_left_shift bitwise_right_shift
m.NAME(): bitwise_not
v.NAME(v): dot vdot outer ger
x.NAME(v): mv bucketize prelu
x.NAME(v, v, v, v): batch_norm
x.NAME(x, y): addcdiv addcmul addmm
x.NAME(0): cummax cummin cumprod cumsum logcumsumexp flip log_softmax softmax softmin unsqueeze
    unsqueeze_copy
x.NAME(2): chunk hsplit vsplit tensor_split layer_norm rms_norm repeat_interleave
x.NAME(0, 1): select select_copy transpose transpose_copy swapaxes swapdims moveaxis movedim
x.NAME(0.5): clamp clip clamp_min clamp_max quantile nanquantile
x.NAME(0.5, 2.0): threshold
x.NAME(2.0): fill full_like
x.NAME(1): roll topk kthvalue split split_copy unsafe_split unsafe_chunk polygamma
x.NAME(w): cross_entropy nll_loss sparse_categorical_crossentropy
x.NAME(0, w): index_select
x.NAME(0, n): gather
x.NAME(n, 0): take_along_dim
x.NAME(n): take
x.NAME(0, n, y): scatter scatter_add
x.NAME(0, w, y): index_add index_copy
x.NAME(0, w, 2.0): index_fill
x.NAME(held): masked_select
x.NAME(held, 2.0): masked_fill
x.NAME(held, y): masked_scatter
x.NAME(0, 0, 1): narrow narrow_copy
x.NAME((4,)): reshape view view_copy
x.NAME((1, 0)): permute permute_copy
x.NAME((1, 1)): pad constant_pad_nd
x.NAME((2, 2)): repeat tile
x.NAME(torpor.int32): cast bitcast
a.NAME(): cholesky cholesky_inverse det inverse pinverse slogdet logdet matrix_exp qr svd
a.NAME(3): matrix_power
w.NAME(): one_hot bincount
v.NAME(): combinations vander diag diag_embed diagflat
(x + 1).NAME(): acosh arccosh
c.NAME: real imag
x.NAME(): adjoint
x.sum().NAME(): item is_nonzero
x.requires_grad_().NAME(): retain_grad
c.NAME(): angle conj conj_physical view_as_real is_complex
line.NAME(2): avg_pool1d max_pool1d adaptive_avg_pool1d adaptive_max_pool1d
image.NAME(2): avg_pool2d max_pool2d adaptive_avg_pool2d adaptive_max_pool2d
image.NAME(1): group_norm
image.NAME(): instance_norm
NAME(v.numel()): torpor.bartlett_window torpor.blackman_window torpor.hamming_window
    torpor.hann_window torpor.kaiser_window fft.fftfreq fft.rfftfreq
NAME(v): fft.fft fft.ifft fft.rfft fft.hfft fft.ihfft fft.irfft fft.fftshift fft.ifftshift
    linalg.vector_norm linalg.vander nn.functional.gumbel_softmax
NAME(x): fft.fft2 fft.ifft2 fft.fftn fft.ifftn fft.rfft2 fft.rfftn fft.irfft2 fft.irfftn fft.hfft2
    fft.hfftn fft.ihfft2 fft.ihfftn nn.functional.pdist
    special.entr special.erfcx special.i0e
    special.i1 special.i1e special.log_ndtr special.ndtr special.ndtri
    special.modified_bessel_i1
NAME(x, 2): special.multigammaln special.chebyshev_polynomial_t special.chebyshev_polynomial_u
    special.chebyshev_polynomial_v special.chebyshev_polynomial_w special.hermite_polynomial_h
    special.hermite_polynomial_he special.laguerre_polynomial_l special.legendre_polynomial_p
NAME(x + 2, y): special.zeta
NAME(x, y): special.xlog1py nn.functional.cdist nn.functional.cosine_similarity
    nn.functional.pairwise_distance nn.functional.soft_margin_loss
    nn.functional.multilabel_soft_margin_loss nn.functional.poisson_nll_loss
    nn.functional.hinge_embedding_loss
NAME(x, w): nn.functional.multi_margin_loss
NAME(x, y, x): nn.functional.gaussian_nll_loss
NAME(n, x): nn.functional.embedding nn.functional.embedding_bag
NAME(image, 2): nn.functional.unfold nn.functional.pixel_unshuffle nn.functional.local_response_norm
NAME(image, scale_factor=0.5): nn.functional.interpolate
NAME(a): linalg.cholesky linalg.cholesky_ex linalg.cond linalg.eig linalg.eigh linalg.eigvals
    linalg.eigvalsh linalg.inv linalg.inv_ex linalg.matrix_norm linalg.matrix_rank linalg.norm
    linalg.pinv linalg.qr linalg.slogdet linalg.svd linalg.svdvals linalg.diagonal
NAME(a, x): linalg.solve linalg.solve_ex linalg.lstsq
NAME(a, x, upper=True): linalg.solve_triangular
NAME([a, x, y]): linalg.multi_dot
NAME(2, 3)(x).shape: nn.Linear nn.LazyLinear
NAME(2)(x).shape: nn.LayerNorm nn.RMSNorm nn.BatchNorm1d
NAME(1, 2, 3)(image).shape: nn.Conv2d nn.ConvTranspose2d
NAME(2, 3, 2)(line).shape: nn.Conv1d nn.ConvTranspose1d
NAME(10, 3)(n).shape: nn.Embedding nn.EmbeddingBag
NAME(2)(image): nn.AvgPool2d nn.MaxPool2d nn.AdaptiveAvgPool2d nn.AdaptiveMaxPool2d
NAME(2, 3)(x)[0].shape: nn.RNN nn.LSTM nn.GRU nn.LSTMCell
NAME(2, 3)(x).shape: nn.RNNCell nn.GRUCell
NAME()(x): nn.ReLU nn.GELU nn.SiLU nn.Sigmoid nn.Tanh nn.ELU nn.SELU nn.CELU nn.Mish nn.ReLU6
    nn.LeakyReLU nn.PReLU nn.Softplus nn.Softsign nn.Softshrink nn.Hardshrink nn.Hardsigmoid
    nn.Hardswish nn.Hardtanh nn.Tanhshrink nn.LogSigmoid nn.Flatten nn.Identity nn.Dropout
NAME(1)(x): nn.Softmax nn.LogSoftmax nn.Softmin
NAME()(x, y): nn.MSELoss nn.L1Loss nn.SmoothL1Loss nn.HuberLoss nn.BCELoss nn.BCEWithLogitsLoss
    nn.KLDivLoss nn.PoissonNLLLoss nn.SoftMarginLoss nn.CosineSimilarity nn.PairwiseDistance
NAME()(x, w): nn.CrossEntropyLoss nn.NLLLoss nn.MultiMarginLoss
NAME(nn.Linear(2, 3), nn.ReLU())(x).shape: nn.Sequential
NAME(nn.Linear(2, 3).parameters(), lr=0.1): optim.SGD optim.Adam optim.AdamW optim.RMSprop
    optim.Adagrad optim.Adadelta optim.Adamax optim.NAdam optim.RAdam optim.ASGD optim.Rprop
    optim.LBFGS optim.Adafactor optim.LAMB
NAME(0.0, 1.0).log_prob(0.5): distributions.Normal distributions.Cauchy distributions.Gumbel
    distributions.Laplace distributions.Uniform
NAME(1.0, 2.0).log_prob(0.5): distributions.Beta distributions.Gamma distributions.LogNormal
    distributions.FisherSnedecor distributions.Weibull distributions.InverseGamma
    distributions.Kumaraswamy
NAME(2.0).log_prob(0.5): distributions.Exponential distributions.Chi2 distributions.HalfNormal
    distributions.HalfCauchy distributions.StudentT
NAME(0.25).log_prob(1.0): distributions.Bernoulli distributions.Geometric
NAME(2.0).log_prob(1.0): distributions.Poisson
NAME(v).sample().shape: distributions.Categorical distributions.Dirichlet
    distributions.OneHotCategorical
NAME(x): nn.init.zeros_ nn.init.ones_ nn.init.eye_
NAME("relu"): nn.init.calculate_gain
NAME(x).shape: nn.init.normal_ nn.init.uniform_ nn.init.kaiming_normal_ nn.init.kaiming_uniform_
    nn.init.xavier_normal_ nn.init.xavier_uniform_ nn.init.trunc_normal_ nn.init.orthogonal_
NAME(lambda t: (t * t).sum(), v): autograd.functional.jacobian autograd.functional.hessian
NAME(x, x): array_api.add array_api.multiply array_api.subtract array_api.divide
NAME(x): array_api.exp array_api.sin array_api.sum array_api.mean
"""


@functools.cache
def rows() -> dict[str, str]:
    """The call of each name in the table."""
    joined = re.sub(r"\n +", " ", ROWS).strip().splitlines()
    pairs = (re.split(r": (?=[\w. ]+$)", row) for row in joined)
    return {name: call for call, names in pairs for name in names.split()}


def call_of(entry: Entry) -> str | None:
    """How the table calls an entry; a method without a row that needs no arguments plainly."""
    name = entry.name if entry.space == "Tensor" else entry.path
    call = rows().get(name)
    if call is None and entry.space == "Tensor" and entry.signature.startswith("("):
        needed = [one for one in entry.signature[1:].split(")")[0].split(", ") if "=" not in one]
        return f"x.{name}()" if needed in ([""], ["*"]) else None
    written = name if entry.space in ("Tensor", "array_api") else name.removeprefix("torpor.")
    before = "torpor." if (call or "").startswith("NAME(") and not written.startswith("nn.") else ""
    return call and call.replace("NAME", before + written)


def _setting(call: str) -> list[str]:
    return [name for name in VALUES if re.search(rf"\b{name}\b(?!\()(?!\s*=)", call)]


def evaluate(call: str) -> Any:
    """What a call gives."""
    torpor.manual_seed(0)
    known: dict[str, Any] = {"torpor": torpor, "Tensor": torpor.Tensor, "nn": torpor.nn}
    for name in _setting(call):
        known[name] = eval(VALUES[name], known)  # noqa: S307 (the table's own text)
    return eval(call, known)  # noqa: S307


def shown(entry: Entry) -> str:
    """The example as Markdown, with what it prints; nothing where there is none."""
    call = call_of(entry)
    if call is None:
        return ""
    made = evaluate(call)
    lines = [f">>> {name} = {VALUES[name]}" for name in _setting(call)]
    lines += [f">>> {call}", *([] if made is None else [repr(made)])]
    return "```pycon\n" + "\n".join(lines) + "\n```"
