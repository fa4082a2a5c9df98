"""Examples that are made: how a function is called on small tensors, for those without their own.

A row says a call, then the names that are called so. `x.NAME()` is what a method without a row is
called as, `NAME` stands for the whole path of what is no method.
"""

from __future__ import annotations

import functools
import inspect
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
    "optimiser": "nn.optim.SGD(nn.Linear(2, 3).parameters(), lr=0.1)",
    "line": "Tensor.arange(8.0).reshape(1, 2, 4)",
    "image": "Tensor.arange(16.0).reshape(1, 1, 4, 4)",
    "cube": "Tensor.arange(8.0).reshape(1, 1, 2, 2, 2)",
}
ROWS: Final = """
x.NAME(y): arctan2 atan2 binary_cross_entropy binary_cross_entropy_with_logits copysign dist div
    divide eq equal float_power floor_divide fmax fmin fmod ge greater greater_equal gt heaviside
    huber_loss hypot inner is_same_size isclose allclose isin kl_div kron l1_loss le less less_equal
    logaddexp logaddexp2 logical_and logical_or logical_xor lt matmul maximum minimum mm mse_loss
    mul multiply ne nextafter not_equal pow remainder reshape_as rsub smooth_l1_loss sub subtract
    true_divide vecdot view_as xlogy add ldexp linear tensordot complex polar expand_as type_as
    igamma igammac
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
    mvlgamma
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
    special.modified_bessel_i1 special.modified_bessel_k0 special.modified_bessel_k1
    special.scaled_modified_bessel_k0 special.scaled_modified_bessel_k1 special.bessel_j0
    special.bessel_j1 special.bessel_y0 special.bessel_y1 special.spherical_bessel_j0
    special.airy_ai
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
NAME(1)(image).shape: nn.CircularPad2d nn.ReflectionPad2d nn.ReplicationPad2d nn.ZeroPad2d
NAME(1, 0.5)(image).shape: nn.ConstantPad2d
NAME(1)(line).shape: nn.CircularPad1d nn.ReflectionPad1d nn.ReplicationPad1d nn.ZeroPad1d
NAME(1, 0.5)(line).shape: nn.ConstantPad1d
NAME(2)(line): nn.AvgPool1d nn.MaxPool1d nn.AdaptiveAvgPool1d nn.AdaptiveMaxPool1d
NAME(2, 2)(line): nn.LPPool1d
NAME(2, 2)(image): nn.LPPool2d
NAME(1)(image).shape: nn.BatchNorm2d nn.InstanceNorm2d
NAME(2)(line).shape: nn.InstanceNorm1d
NAME()(image).shape: nn.LazyBatchNorm2d nn.LazyInstanceNorm2d
NAME()(line).shape: nn.LazyBatchNorm1d nn.LazyInstanceNorm1d
NAME(3, 2)(image).shape: nn.LazyConv2d nn.LazyConvTranspose2d
NAME(3, 2)(line).shape: nn.LazyConv1d nn.LazyConvTranspose1d
NAME(1, 1)(image).shape: nn.GroupNorm
NAME(2)(image).shape: nn.Unfold nn.PixelUnshuffle nn.LocalResponseNorm nn.UpsamplingNearest2d
    nn.UpsamplingBilinear2d nn.Upsample
NAME(2)(line.reshape(1, 4, 1, 2)).shape: nn.PixelShuffle nn.ChannelShuffle
NAME()(x): nn.GLU nn.RReLU nn.Dropout1d nn.AlphaDropout nn.FeatureAlphaDropout
NAME()(image): nn.Dropout2d nn.Softmax2d
NAME(0.5, 2.0)(x): nn.Threshold
NAME(1, (2, 1))(x): nn.Unflatten
NAME(2, 2, 3)(x, y).shape: nn.Bilinear
NAME(2, 1)(x, x, x)[0].shape: nn.MultiheadAttention
NAME(2, 1)(x).shape: nn.TransformerEncoderLayer
NAME(2, 1)(x, y).shape: nn.TransformerDecoderLayer nn.Transformer
NAME(nn.TransformerEncoderLayer(2, 1), 2)(x).shape: nn.TransformerEncoder
NAME(nn.TransformerDecoderLayer(2, 1), 2)(x, y).shape: nn.TransformerDecoder
NAME([nn.Linear(2, 3), nn.ReLU()]): nn.ModuleList
NAME({"in": nn.Linear(2, 3)}): nn.ModuleDict
NAME(x).requires_grad: nn.Parameter
NAME(x, y, w): nn.functional.cosine_embedding_loss nn.functional.triplet_margin_loss
    nn.functional.margin_ranking_loss nn.functional.triplet_margin_with_distance_loss
NAME()(x, y, x): nn.TripletMarginLoss nn.GaussianNLLLoss nn.TripletMarginWithDistanceLoss
NAME()(x, y): nn.HingeEmbeddingLoss nn.MultiLabelSoftMarginLoss
NAME(x, 0.5): nn.functional.dropout nn.functional.alpha_dropout
NAME(image, 0.5): nn.functional.dropout2d
NAME(line, 2): nn.functional.channel_shuffle
NAME(line, 2, 2): nn.functional.lp_pool1d
NAME(image, 2, 2): nn.functional.lp_pool2d
NAME(image, scale_factor=2): nn.functional.upsample_nearest nn.functional.upsample_bilinear
NAME(image): nn.functional.instance_norm
NAME(Tensor([[[1.0, 0, 0], [0, 1, 0]]]), (1, 1, 2, 2)): nn.functional.affine_grid
NAME(image, Tensor.zeros(1, 2, 2, 2)): nn.functional.grid_sample
NAME(optimiser, 0.5).get_last_lr(): optim.lr_scheduler.ExponentialLR
    optim.lr_scheduler.ConstantLR optim.lr_scheduler.LinearLR optim.lr_scheduler.SWALR
NAME(optimiser, 10).get_last_lr(): optim.lr_scheduler.StepLR optim.lr_scheduler.PolynomialLR
    optim.lr_scheduler.CosineAnnealingLR optim.lr_scheduler.CosineAnnealingWarmRestarts
NAME(optimiser, [10, 20]).get_last_lr(): optim.lr_scheduler.MultiStepLR
NAME(optimiser, lambda epoch: 0.9**epoch).get_last_lr(): optim.lr_scheduler.LambdaLR
    optim.lr_scheduler.MultiplicativeLR
NAME(optimiser, 0.1, 10).get_last_lr(): optim.lr_scheduler.OneCycleLR
NAME(optimiser, 0.01, 0.1).get_last_lr(): optim.lr_scheduler.CyclicLR
NAME(optimiser): optim.lr_scheduler.ReduceLROnPlateau
NAME(nn.Linear(2, 3)): optim.swa_utils.AveragedModel
NAME(optimiser.param_groups[0]["params"], lr=0.1): optim.Muon
NAME()(x): distributions.ExpTransform distributions.AbsTransform distributions.SigmoidTransform
    distributions.SoftmaxTransform distributions.SoftplusTransform distributions.TanhTransform
NAME(1.0, 2.0)(x): distributions.AffineTransform
NAME(2.0)(x): distributions.PowerTransform
NAME(3, 0.5).log_prob(2.0): distributions.Binomial distributions.NegativeBinomial
NAME(1.0, 2.0).log_prob(2.0): distributions.Pareto distributions.VonMises
NAME(v, a).log_prob(v): distributions.MultivariateNormal
NAME(nn.distributions.Normal(v, v), 1).log_prob(v): distributions.Independent
NAME(nn.distributions.Normal(0.0, 1.0), nn.distributions.Normal(1.0, 1.0)):
    distributions.kl_divergence
NAME(lambda t: (t * t).sum(), v): autograd.functional.vhp
    autograd.functional.vjp func.value_and_grad func.linearize
NAME(lambda t: (t * t).sum())(v): func.value_and_grad func.grad_and_value func.grad
NAME([1, 2]): torpor.as_tensor
NAME(x): torpor.is_tensor
NAME(held, x, y): torpor.where array_api.where
NAME(): torpor.get_default_dtype torpor.get_default_device torpor.is_grad_enabled
NAME(x, (1, 0)): array_api.permute_dims
NAME(x, 0, 1): array_api.moveaxis
NAME(x, (4,)): array_api.reshape
NAME(x, (3, 2, 2)): array_api.broadcast_to
NAME(x, w, axis=0): array_api.take
NAME(x, n): array_api.take_along_axis
NAME(w): array_api.argsort array_api.bitwise_invert
NAME(held): array_api.logical_not
NAME(held, held): array_api.logical_and array_api.logical_or array_api.logical_xor
NAME(w, w): array_api.bitwise_and array_api.bitwise_or array_api.bitwise_xor
    array_api.bitwise_left_shift array_api.bitwise_right_shift
NAME(x + 1): array_api.acosh
NAME(c): array_api.conj array_api.imag array_api.real
NAME(x, torpor.float64): array_api.astype
NAME(x, 1): array_api.roll
NAME(x, 2): array_api.repeat
NAME(x, (2, 1)): array_api.tile
NAME(x[:1], 0): array_api.squeeze
NAME(v, x): array_api.searchsorted
NAME((2, 3), 7): array_api.full
NAME(x, axis=0): array_api.cumulative_sum array_api.cumulative_prod
NAME(v, w): array_api.meshgrid
Tensor.NAME(v, w): cartesian_prod
x.NAME(y).tolist(): assign
x[None].NAME(y[None]): bmm
line.NAME(Tensor.ones(1, 2, 2)): conv1d
line.NAME(Tensor.ones(2, 1, 2)): conv_transpose1d
image[None].NAME(Tensor.ones(1, 1, 1, 2, 2)): conv3d
image[None].NAME(Tensor.ones(1, 1, 1, 2, 2)).shape: conv_transpose3d
Tensor([1.0, 0, 0]).NAME(Tensor([0.0, 1, 0])): cross
x.NAME(3): nonzero_static
x.NAME(1, 2): sum_to_size
NAME(image[None], 0.5).shape: nn.functional.dropout3d
NAME(x, n): nn.functional.multilabel_margin_loss
NAME([x], lr=0.1): optim.Muon
NAME(lambda t: (t * t).sum(), v, v): autograd.functional.hvp
NAME([nn.Linear(2, 3).weight], 1.0): nn.utils.clip_grad_norm_ nn.utils.clip_grad_value_
NAME(nn.Linear(2, 3).parameters()).shape: nn.utils.parameters_to_vector
NAME([v, Tensor([1.0])]): nn.utils.rnn.pad_sequence nn.utils.rnn.pack_sequence
NAME(v, x)[0]: nn.data.TensorDataset
NAME(nn.data.TensorDataset(v), batch_size=2): nn.data.DataLoader
NAME(1)(cube): nn.AdaptiveAvgPool3d nn.AdaptiveMaxPool3d nn.AvgPool3d nn.MaxPool3d
NAME(2, 2)(cube): nn.LPPool3d
NAME(cube, 2, 2): nn.functional.lp_pool3d
NAME(1)(cube).shape: nn.BatchNorm3d nn.InstanceNorm3d nn.CircularPad3d nn.ReflectionPad3d
    nn.ReplicationPad3d nn.ZeroPad3d
NAME(1, 0.5)(cube).shape: nn.ConstantPad3d
NAME(1, 2, 2)(cube).shape: nn.Conv3d nn.ConvTranspose3d
NAME(2, 2)(cube).shape: nn.LazyConv3d nn.LazyConvTranspose3d
NAME()(cube).shape: nn.LazyBatchNorm3d nn.LazyInstanceNorm3d nn.Dropout3d
NAME(2, output_size=2)(image): nn.FractionalMaxPool2d
NAME(1, output_size=1)(cube): nn.FractionalMaxPool3d
NAME(image, 2, 2): nn.functional.fractional_max_pool2d
NAME(cube, 1, 1): nn.functional.fractional_max_pool3d
NAME(2)(*nn.MaxPool1d(2, return_indices=True)(line)): nn.MaxUnpool1d
NAME(2)(*nn.MaxPool2d(2, return_indices=True)(image)): nn.MaxUnpool2d
NAME(1)(*nn.MaxPool3d(1, return_indices=True)(cube)): nn.MaxUnpool3d
NAME((3, 3), 2)(Tensor.ones(1, 4, 4)): nn.Fold
NAME(Tensor.ones(1, 4, 4), (3, 3), 2): nn.functional.fold
NAME(3)(image).shape: nn.CrossMapLRN2d
NAME(2)(x).shape: nn.SyncBatchNorm
NAME()(x, y, 2 * w - 1): nn.CosineEmbeddingLoss
NAME()(v, 2 * v, w): nn.MarginRankingLoss
NAME()(x, n): nn.MultiLabelMarginLoss
NAME()(x, w): nn.NLLLoss2d
NAME()(x.log_softmax(1)[:, None], w[1:] + 0, w[1:] + 1, w[1:]): nn.CTCLoss
NAME(2, 4, [2])(x, w).output: nn.AdaptiveLogSoftmaxWithLoss
NAME([v, x]): nn.ParameterList
NAME({"scale": v}): nn.ParameterDict
NAME(line.reshape(1, 4, 1, 2), 2).shape: nn.functional.pixel_shuffle
NAME(x, y, Tensor.ones(3, 2, 2)).shape: nn.functional.bilinear
NAME(x, v, v + 1): nn.functional.batch_norm
NAME(x, 0.5): nn.init.constant_
NAME(Tensor.zeros(2, 2, 1)): nn.init.dirac_
NAME(x, 0.5).shape: nn.init.sparse_
NAME(nn.Linear(2, 3)).weight.shape: nn.utils.weight_norm nn.utils.spectral_norm
    nn.utils.parametrizations.weight_norm nn.utils.parametrizations.spectral_norm
    nn.utils.parametrizations.orthogonal
NAME(nn.utils.weight_norm(nn.Linear(2, 3))): nn.utils.remove_weight_norm
NAME(nn.utils.spectral_norm(nn.Linear(2, 3))): nn.utils.remove_spectral_norm
NAME(nn.Linear, 2, 3): nn.utils.skip_init
NAME(nn.Conv2d(1, 2, 3).eval(), nn.BatchNorm2d(2).eval()): nn.utils.fuse_conv_bn_eval
NAME(nn.Linear(2, 3).eval(), nn.BatchNorm1d(3).eval()): nn.utils.fuse_linear_bn_eval
NAME(v.repeat(2), [v.clone(), v.clone()]): nn.utils.vector_to_parameters
NAME(w): nn.utils.rnn.invert_permutation
NAME(line, w * 0 + 1).data.shape: nn.utils.rnn.pack_padded_sequence
NAME(nn.utils.rnn.pack_sequence([v, v[:1]])): nn.utils.rnn.pad_packed_sequence
    nn.utils.rnn.unpack_sequence
NAME(x, w + 1): nn.utils.rnn.unpad_sequence
NAME(nn.Linear(2, 3)): nn.utils.parametrize.is_parametrized
    nn.utils.parametrize.type_before_parametrizations
NAME(nn.Linear(2, 3), "weight", nn.Tanh()).weight.shape:
    nn.utils.parametrize.register_parametrization
NAME(nn.utils.parametrizations.weight_norm(nn.Linear(2, 3)), "weight"):
    nn.utils.parametrize.remove_parametrizations
list(NAME(range(3), 2)): nn.data.BatchSampler
list(NAME("abc")): nn.data.SequentialSampler
sorted(NAME("abc")): nn.data.RandomSampler
sorted(NAME([4, 7])): nn.data.SubsetRandomSampler
list(NAME([0.0, 1.0], 3)): nn.data.WeightedRandomSampler
list(NAME([[1, 2], [3]])): nn.data.ConcatDataset nn.data.ChainDataset
list(NAME("abc", [2, 0])): nn.data.Subset
[len(part) for part in NAME(range(5), [3, 2])]: nn.data.random_split
NAME([(1, 2.0), (3, 4.0)]): nn.data.default_collate
NAME([1, 2]): nn.data.default_convert
NAME(): nn.data.get_worker_info
NAME(2)(image).shape: nn.data.transforms.CenterCrop nn.data.transforms.Pad
    nn.data.transforms.RandomCrop nn.data.transforms.RandomResizedCrop nn.data.transforms.Resize
NAME(30.0)(image).shape: nn.data.transforms.RandomRotation nn.data.transforms.RandomAffine
NAME(3)(image).shape: nn.data.transforms.GaussianBlur
NAME()(image).shape: nn.data.transforms.RandomHorizontalFlip nn.data.transforms.RandomVerticalFlip
    nn.data.transforms.RandomErasing nn.data.transforms.ToFloat
NAME([nn.data.transforms.Pad(1), nn.data.transforms.CenterCrop(2)])(image).shape:
    nn.data.transforms.Compose
NAME(lambda pictures: pictures * 2)(image): nn.data.transforms.Lambda
NAME([0.5], [0.25])(image).shape: nn.data.transforms.Normalize
NAME([nn.optim.lr_scheduler.ExponentialLR(optimiser, 0.5)]).last_epoch:
    optim.lr_scheduler.ChainedScheduler
NAME([nn.distributions.ExpTransform(), nn.distributions.AffineTransform(1.0, 2.0)])(x):
    distributions.ComposeTransform distributions.StackTransform distributions.CatTransform
NAME(nn.distributions.ExpTransform(), 1)(x): distributions.IndependentTransform
NAME()(x): distributions.LowerCholeskyTransform distributions.PositiveDefiniteTransform
    distributions.StickBreakingTransform
NAME()(v[:1]): distributions.CorrCholeskyTransform
NAME((2,), (1, 2))(x).shape: distributions.ReshapeTransform
NAME(nn.distributions.Normal(0.0, 1.0))(x): distributions.CumulativeDistributionTransform
NAME(v, v).sample().sum(): distributions.LogisticNormal
NAME(v, x, v).log_prob(v): distributions.LowRankMultivariateNormal
NAME(3.0, a).log_prob(a): distributions.Wishart
NAME(2).sample().shape: distributions.LKJCholesky
NAME(nn.distributions.Categorical(v), nn.distributions.Normal(v, v)).log_prob(0.5):
    distributions.MixtureSameFamily
NAME(2, v).log_prob(Tensor([1.0, 1.0])): distributions.Multinomial
NAME(v).sample(): distributions.OneHotCategoricalStraightThrough
NAME(1.0, v).rsample().shape: distributions.RelaxedBernoulli distributions.RelaxedOneHotCategorical
NAME(0.3).log_prob(0.5): distributions.ContinuousBernoulli
NAME(0.0, 1.0, 0.5).log_prob(0.5): distributions.GeneralizedPareto
NAME(nn.distributions.Normal(0.0, 1.0), nn.distributions.ExpTransform()).log_prob(v):
    distributions.TransformedDistribution
NAME([Tensor([3.0, 4.0])]): nn.utils.get_total_norm
NAME(line, 2): nn.functional.max_pool1d_with_indices
    nn.functional.adaptive_max_pool1d_with_indices
NAME(image, 2): nn.functional.max_pool2d_with_indices
    nn.functional.adaptive_max_pool2d_with_indices
NAME(cube, 1): nn.functional.max_pool3d_with_indices nn.functional.adaptive_max_pool3d_with_indices
NAME(image, 2, 2): nn.functional.fractional_max_pool2d_with_indices
NAME(cube, 1, 1): nn.functional.fractional_max_pool3d_with_indices
NAME(line, Tensor.ones(1, 4, 2), v).shape: nn.functional.conv_tbc
NAME(x.log_softmax(1)[:, None], w[1:] + 0, w[1:] + 1, w[1:]): nn.functional.ctc_loss
NAME(image, Tensor.zeros(1, 2, 2, 2), 0, 0, False): nn.functional.grid_sampler_2d
NAME(x, 0.5, 2.0): nn.functional.threshold_
NAME()(Tensor.rand(3, 4, 4)).shape: nn.data.transforms.ColorJitter nn.data.transforms.Grayscale
    nn.data.transforms.RandomAutocontrast nn.data.transforms.RandomGrayscale
    nn.data.transforms.RandomInvert
NAME(2.0)(Tensor.rand(3, 4, 4)).shape: nn.data.transforms.RandomAdjustSharpness
NAME(0.5)(Tensor.rand(3, 4, 4)).shape: nn.data.transforms.RandomSolarize
NAME([nn.data.transforms.GaussianBlur(3)], p=1.0)(image).shape: nn.data.transforms.RandomApply
NAME(0.9): optim.swa_utils.get_ema_avg_fn optim.swa_utils.get_ema_multi_avg_fn
NAME([[Tensor.rand(4, 2)]], nn.BatchNorm1d(2)): optim.swa_utils.update_bn
NAME([(nn.Linear(2, 3), "weight")], nn.utils.prune.L1Unstructured, amount=2):
    nn.utils.prune.global_unstructured
NAME(2).prune(x): nn.utils.prune.L1Unstructured nn.utils.prune.RandomUnstructured
NAME(1, n=2, dim=0).prune(x): nn.utils.prune.LnStructured
NAME(1, dim=0).prune(x): nn.utils.prune.RandomStructured
NAME(n).prune(x): nn.utils.prune.CustomFromMask
NAME().prune(x): nn.utils.prune.Identity
NAME(nn.Linear(2, 1), "weight", 1).weight.count_nonzero(): nn.utils.prune.l1_unstructured
    nn.utils.prune.random_unstructured
NAME(nn.Linear(2, 3), "weight", 1, dim=1).weight.count_nonzero(): nn.utils.prune.random_structured
NAME(nn.Linear(2, 3), "weight", 1, n=2, dim=0).weight.count_nonzero():
    nn.utils.prune.ln_structured
NAME(nn.Linear(2, 2), "weight", w * n).weight.count_nonzero(): nn.utils.prune.custom_from_mask
NAME(nn.utils.prune.identity(nn.Linear(2, 3), "bias")): nn.utils.prune.is_pruned
NAME(nn.Linear(2, 3), "bias"): nn.utils.prune.identity
NAME(nn.utils.prune.identity(nn.Linear(2, 3), "bias"), "bias"): nn.utils.prune.remove
NAME([nn.Linear(2, 3).weight], 1.0, Tensor(2.0)): nn.utils.clip_grads_with_norm_
"""


@functools.cache
def rows() -> dict[str, str]:
    """The call of each name in the table."""
    joined = re.sub(r"\n +", " ", ROWS).strip().splitlines()
    pairs = (re.split(r": (?=[\w. ]+$)", row) for row in joined)
    return {name: call for call, names in pairs for name in names.split()}


# What a parameter is given where there is no row; a function that needs another has no example.
USUAL: Final = {
    "x": "x", "input": "x", "x1": "x", "x2": "y", "other": "y", "target": "y", "arrays": "[x, y]",
    "tensors": "[x, y]", "shape": "(2, 3)", "size": "(2, 3)", "start": "0", "stop": "4", "num": "5",
    "dtype": "torpor.float64", "n": "2", "n_rows": "2", "s": "2.0", "row": "2", "col": "2",
    "fill_value": "2.0", "value": "2.0", "low": "5", "array": "x.numpy()", "end": "y",
    "weight": "0.5", "obj": "[1, 2]", "data": "[1, 2]",
}  # fmt: skip
_GUESSED: Final = ("Tensor", "array_api", "nn.functional", "special", "linalg", "fft")
# What changes how everything else is done, or shows what differs from run to run.
_LEFT_OUT: Final = ("train", "manual_seed", "schedule", "schedule_with_vars")


def _given(entry: Entry) -> str | None:
    """Usual values of all parameters that have to be given; none if one is not known."""
    try:
        parameters = inspect.signature(entry.value).parameters.values()
    except (TypeError, ValueError):
        return None
    given = []
    for one in parameters:
        if one.name == "self" or one.default is not one.empty or one.kind is one.VAR_KEYWORD:
            continue
        if one.name not in USUAL or one.kind is one.KEYWORD_ONLY:
            return None
        value = USUAL[one.name]
        given.append(value.strip("[]()") if one.kind is one.VAR_POSITIONAL else value)
    return ", ".join(given)


def call_of(entry: Entry) -> str | None:
    """How an entry is called: by its row, or with usual values."""
    method = entry.space == "Tensor"
    call = rows().get(entry.name if method else entry.path)
    if call is None:
        if entry.space not in _GUESSED or entry.name in _LEFT_OUT:
            return None
        before = ("Tensor." if entry.is_static else "x.") if method else ""
        if method and entry.is_property:
            return f"x.{entry.name}"
        given = _given(entry)
        call = None if given is None else f"{before}NAME({given})"
    if method or call is None:
        return call and call.replace("NAME", entry.name)
    path = entry.path.removeprefix("torpor.")
    return call.replace("NAME", path if path.startswith("nn.") else f"torpor.{path}")


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
    printed = re.sub(r" at 0x[0-9a-f]+", "", repr(made))
    lines += [f">>> {call}", *([] if made is None else [printed])]
    return "```pycon\n" + "\n".join(lines) + "\n```"
