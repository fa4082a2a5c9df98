"""Losses, normalisation and dropout: what networks are made of besides products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torpor.base.dtypes import dtypes
from torpor.base.errors import DTypeError, ShapeError, ValueRangeError
from torpor.graph import build
from torpor.ir.infer import product
from torpor.ir.records import Requirement
from torpor.tensor.amp import raised
from torpor.tensor.annotated import Tensor
from torpor.tensor.creation import beside
from torpor.tensor.handle import Handle, derive, float_dtype, floats, located, make, render_shape
from torpor.tensor.iota import iota
from torpor.tensor.mode import training
from torpor.tensor.operands import choose, need, sized, sloped
from torpor.tensor.random import random_uniform
from torpor.tensor.repeated import repeated
from torpor.tensor.scatter import placed, required
from torpor.tensor.spelling import among, unexpected, within
from torpor.tensor.wide import wide_dtype, widely


def reduced(loss: Any, reduction: str) -> Tensor:
    """The mean, the sum or each of the losses, which are real."""
    need(not loss.is_pair, "a loss is real: take abs(), or real and imag, of complex numbers", loss)
    among("reduction", reduction, "mean", "sum", "none")
    return loss if reduction == "none" else loss.mean() if reduction == "mean" else loss.sum()


def weighted(loss: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    """As `reduced`, of losses times weights of their shape; the mean is by the weights' sum."""
    if weight is None:
        return reduced(loss, reduction)
    if weight.shape != loss.shape:
        what = f"weights of shape {render_shape(weight.shape)} for losses of another one"
        raise located(ShapeError(what), (loss,))
    made = loss * weight
    return made.sum() / weight.sum() if reduction == "mean" else reduced(made, reduction)


def _bent(difference: Any, beta: float) -> Any:
    """d² / (2 beta) of differences d below beta, else |d| - beta / 2."""
    within("beta", beta, 0)
    apart = difference.abs()
    if beta == 0:
        return apart
    far = apart >= beta
    near = far.where(0, apart)  # the square of what is infinite has no gradient
    return far.where(apart - 0.5 * beta, near * near * (0.5 / beta))


class Loss(Handle):
    """Losses: of this tensor (the prediction) against a target. Reduction "mean" and "sum" give a
    0-d tensor, "none" one loss an element (or a sample); another one is a `ValueError`.
    """

    __slots__ = ()

    def mse_loss(
        self, target: Any, reduction: str = "mean", weight: Tensor | None = None
    ) -> Tensor:
        """(self - target)², times weight[...], if there is one, of the same shape."""
        return weighted((self - target).square(), weight, reduction)

    def l1_loss(self, target: Any, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
        """|self - target|, times weight[...], if there is one, of the same shape."""
        return weighted((self - target).abs(), weight, reduction)

    def smooth_l1_loss(self, target: Any, reduction: str = "mean", beta: float = 1.0) -> Tensor:
        """d² / (2 beta) where d = |self - target| is below `beta`, d - beta / 2 elsewhere.
        Girshick, 2015, arXiv:1504.08083, equation 3.
        """
        return reduced(_bent(self - target, beta), reduction)

    @widely
    def huber_loss(
        self,
        target: Any,
        reduction: str = "mean",
        delta: float = 1.0,
        weight: Tensor | None = None,
    ) -> Tensor:
        """d² / 2 where d = |self - target| is below `delta`, delta (d - delta / 2) elsewhere; the
        losses are multiplied by `weight`, if there is one, and their mean is by their number.
        Huber, "Robust estimation of a location parameter", 1964.
        """
        if not delta > 0:
            raise ValueRangeError(f"huber_loss needs a delta above 0, not {delta}")
        loss = _bent(self - target, delta) * delta
        return reduced(loss if weight is None else loss * weight, reduction)

    @widely
    def nll_loss(
        self,
        target: Tensor,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
    ) -> Tensor:
        """Minus the log-probability of each target class: log-probabilities (batch, classes, ...)
        or (classes,), target classes (batch, ...) or () of integers; a class outside raises at
        realisation.

        weight: (classes,), by which a sample counts; the mean divides by the sum of those that
        count. ignore_index: a class whose samples do not count.
        """
        target, axis = beside(target, self), 1 if self.ndim > 1 else 0
        _check_target(self, target, axis, weight)
        kept = target.cast(dtypes.int64).ne(ignore_index)  # which unsigned formats do not hold
        picked = _picked(self, choose(kept, target, 0), axis)
        return _counted(-picked, kept, target, weight, reduction)

    @widely
    def cross_entropy(
        self,
        target: Tensor,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> Tensor:
        """`nll_loss` of log_softmax(logits), logits (batch, classes, ...) or (classes,). The target
        holds classes (integers, without the axis of classes), or probabilities of the logits' shape
        (floats), for which the mean is over samples.

        label_smoothing: the part of the target that is spread evenly over all classes. Szegedy et
        al., 2015, arXiv:1512.00567, section 7.

        >>> round(Tensor([[0.0, 0.0]]).cross_entropy(Tensor([1])).item(), 4)  # log 2
        0.6931
        """
        within("label_smoothing", label_smoothing, 0, 1)
        target, axis = beside(target, self), 1 if self.ndim > 1 else 0
        classes = self.shape[axis]
        if target.dtype.is_float:
            logs = self.log_softmax(axis)
            if ignore_index >= 0:
                raise ValueRangeError("ignore_index is for target classes, not for probabilities")
            if target.shape != self.shape:
                what = f"target probabilities must have the logits' shape {self.shape}"
                raise located(ShapeError(what), (self, target))
            smooth = target * (1 - label_smoothing) + label_smoothing / classes
            return reduced(-_affine(logs * smooth, _along(weight, logs, axis)).sum(axis), reduction)
        _check_target(self, target, axis, weight)
        kept = target.cast(dtypes.int64).ne(ignore_index)  # which unsigned formats do not hold
        surprise = _surprise(self, choose(kept, target, 0), axis)
        exact = _counted(surprise, kept, target, weight, reduction)
        if not label_smoothing:
            return exact
        logs = self.log_softmax(axis)
        scaled = _affine(logs, _along(weight, logs, axis))
        spread = kept.where(-scaled.sum(axis), 0)
        if reduction == "mean":
            spread = spread.sum() / _counting(kept, target, weight, logs.dtype).sum()
        else:
            spread = reduced(spread, reduction)
        return exact * (1 - label_smoothing) + spread * (label_smoothing / classes)

    def sparse_categorical_crossentropy(
        self, target: Tensor, ignore_index: int = -100, label_smoothing: float = 0.0
    ) -> Tensor:
        """Mean cross-entropy of logits (..., classes), classes on the last axis, with target
        classes (...).
        """
        rows = self.reshape(-1, self.shape[-1])
        return rows.cross_entropy(
            target.reshape(-1), ignore_index=ignore_index, label_smoothing=label_smoothing
        )

    def binary_cross_entropy(
        self, target: Any, weight: Tensor | None = None, reduction: str = "mean"
    ) -> Tensor:
        """-(target log(p) + (1 - target) log(1 - p)) of probabilities p, this tensor, of any shape;
        the logarithms are no less than -100, as in PyTorch. Both are between 0 and 1 (else an error
        at realisation).
        """
        _same_shape(self, target)
        both: Any = self, beside(target, self)
        p, wanted = map(_probability, both, ("its input", "its target"))
        yes, no = p.log().maximum(-100.0), (-p).log1p().maximum(-100.0)
        loss: Any = -(wanted * yes + (1 - wanted) * no)
        p, wanted = (one.cast(loss.dtype) for one in both)
        slope = (p - wanted) / ((1 - p) * p).maximum(1e-12)
        loss = sloped(loss, (p, slope), (wanted, (1 - p).log() - p.log()))
        return reduced(loss if weight is None else loss * weight, reduction)

    @repeated
    def binary_cross_entropy_with_logits(
        self,
        target: Any,
        weight: Tensor | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> Tensor:
        """`binary_cross_entropy` of sigmoid(self), without overflow; `pos_weight` multiplies what
        positive targets add.
        """
        wrong = (-self).softplus(threshold=1000)  # from where on it is -self in every format
        _same_shape(self, target)
        if pos_weight is not None:
            wrong = ((pos_weight - 1) * target + 1) * wrong
        loss = self * (1 - target) + wrong
        return reduced(loss if weight is None else loss * weight, reduction)

    def kl_div(self, target: Any, reduction: str = "mean", log_target: bool = False) -> Tensor:
        """target log(target) - target self, this tensor being log-probabilities, and 0 log(0) being
        0. With `log_target` the target is given as a logarithm too. Reduction "batchmean" divides
        the sum by the length of axis 0, which is the divergence of Kullback and Leibler; "mean" by
        all elements.
        """
        if log_target:
            loss = target.exp() * (target - self)
        else:
            loss = target.eq(0).where(0, target * target.log()) - target * self
        if reduction == "batchmean":
            return loss.sum() / (self.shape[0] if self.ndim else 1)
        return reduced(loss, reduction)

    # --- normalisation ----------------------------------------------------------------------------
    @repeated
    def layer_norm(
        self,
        normalized_shape: Sequence[int] | int,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        eps: float = 1e-5,
    ) -> Tensor:
        """The last axes, of the sizes `normalized_shape`, moved to mean 0 and (biased) variance 1,
        then multiplied by `weight` and `bias` added, both of those sizes: (x - mean) /
        sqrt(variance + eps). Ba, Kiros and Hinton, 2016, arXiv:1607.06450.
        """
        axes = _last_axes(self, normalized_shape, weight, bias)
        return self._standardized(axes, weight, bias, eps)

    def _standardized(self, axes: Any, weight: Any, bias: Any, eps: float) -> Tensor:
        wide = self.cast(wide_dtype(self.dtype))
        centered = wide - wide.mean(axes, True)
        made = centered * (centered.square().mean(axes, True) + eps).rsqrt()
        return _affine(made.cast(float_dtype(self.dtype)), weight, bias)

    def rms_norm(
        self,
        normalized_shape: Sequence[int] | int,
        weight: Tensor | None = None,
        eps: float | None = None,
    ) -> Tensor:
        """The last axes, of the sizes `normalized_shape`, divided by sqrt(mean(x²) + eps), then
        multiplied by `weight`; unless given, eps is 2**-23, and 2**-52 of float64. Zhang and
        Sennrich, 2019, arXiv:1910.07467.
        """
        axes = _last_axes(self, normalized_shape, weight)
        dtype = float_dtype(self.dtype)
        wide = self.cast(wide_dtype(dtype))
        small = (2.0**-52 if wide.dtype is dtypes.float64 else 2.0**-23) if eps is None else eps
        made = (wide * (wide.square().mean(axes, True) + small).rsqrt()).cast(dtype)
        return _affine(made, weight)

    def group_norm(
        self,
        num_groups: int,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        eps: float = 1e-5,
    ) -> Tensor:
        """(batch, channels, ...): each of `num_groups` groups of channels moved to mean 0 and
        variance 1, then scaled and shifted by `weight` and `bias` (channels,). Wu and He, 2018,
        arXiv:1803.08494.
        """
        batch, channels = self.shape[:2]
        if channels % num_groups:
            what = f"{num_groups} groups do not divide {channels} channels"
            raise located(ShapeError(what), (self,))
        check_several(self, num_groups)
        each = product(self.shape[1:]) // num_groups
        rows = self.reshape(batch, num_groups, each)._standardized((2,), None, None, eps)
        return _affine(rows.reshape(self.shape), _along(weight, self, 1), _along(bias, self, 1))

    def instance_norm(self, eps: float = 1e-5) -> Tensor:
        """(batch, channels, ...): each channel of each sample moved to mean 0 and variance 1.
        Ulyanov et al., 2016, arXiv:1607.08022.
        """
        check_several(self, product(self.shape[:2]))
        return self._standardized(tuple(range(2, self.ndim)), None, None, eps)

    @repeated
    def batch_norm(
        self,
        mean: Tensor,
        invstd: Tensor,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
    ) -> Tensor:
        """(self - mean) * invstd, multiplied by `weight` and `bias` added: (batch, channels, ...)
        with four vectors (channels,). Ioffe and Szegedy, 2015, arXiv:1502.03167.
        """
        made = (self - _along(mean, self, 1)) * _along(invstd, self, 1)
        return _affine(made, _along(weight, self, 1), _along(bias, self, 1))

    # --- dropout ----------------------------------------------------------------------------------
    def dropout(self, p: float = 0.5, training_now: bool | None = None, **options: Any) -> Tensor:
        """Each element 0 with probability p, else divided by 1 - p: while `Tensor.training` holds,
        or as `training=` says; else the tensor itself. Srivastava et al., "Dropout", 2014.
        """
        flag = options.pop("training", training_now)
        if options:
            raise unexpected("dropout()", next(iter(options)), ("p", "training"))
        within("dropout's probability", p, 0, 1)
        if not (training() if flag is None else flag) or p == 0:
            return self  # type: ignore[return-value]
        if p == 1:
            return self.mul(0)
        return (random_uniform(self.shape, self.device) >= p).where(self * (1 / (1 - p)), 0)


_ENDS = ("_loss", "entropy", "_logits", "kl_div")
for _name in [name for name in vars(Loss) if name.endswith(_ENDS)]:
    setattr(Loss, _name, raised(getattr(Loss, _name)))


def check_several(operand: Any, rows: Any) -> None:
    """Refuse statistics over one element of each row, which is all that there is of it."""
    if isinstance(rows, int) and operand.numel() == rows > 0:
        what = "one value of each channel has no statistics; more are needed"
        raise located(ShapeError(what), (operand,))


def _probability(values: Any, what: str) -> Any:
    """The values, which are checked to be between 0 and 1."""
    text = f"binary_cross_entropy needs {what} between 0 and 1"
    return derive(build.check, (values, (values >= 0) & (values <= 1)), Requirement("value", text))


def _affine(made: Any, weight: Any, bias: Any = None) -> Any:
    """Multiplied by the weight and the bias added, where they are given."""
    made = made if weight is None else made * weight
    return made if bias is None else made + bias


def _same_shape(operand: Any, target: Any) -> None:
    if isinstance(target, Handle):
        sized(target, operand.shape, "a target")


def _last_axes(operand: Any, shape: Sequence[int] | int, *parameters: Any) -> tuple[int, ...]:
    """The last axes of `operand`, which have these sizes, as have the parameters that there are."""
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if not sizes or tuple(operand.shape[-len(sizes) :]) != sizes:
        raise located(ShapeError(f"the last axes must be {sizes}"), (operand,))
    for one in parameters:
        sized(one, sizes, "a parameter of the norm")
    return tuple(range(-len(sizes), 0))


def _along(values: Any, operand: Any, axis: int) -> Any:
    """A vector, if there is one, laid along one axis of `operand`, which is as long."""
    if values is None or values.ndim != 1:
        return values
    sized(values, operand.shape[axis : axis + 1], f"a number for each place of axis {axis}")
    return values.reshape(-1, *(1,) * (operand.ndim - 1 - axis))


def _counting(kept: Any, target: Any, weight: Any, dtype: Any) -> Any:
    """By how much each sample counts: 0, or the weight of its class."""
    return _affine(kept.cast(dtype), None if weight is None else weight[choose(kept, target, 0)])


def _counted(loss: Any, kept: Any, target: Any, weight: Any, reduction: str) -> Any:
    """The losses of samples that are kept, by the weights of their classes."""
    scale = _counting(kept, target, weight, loss.dtype)
    loss = kept.where(loss, 0) if weight is None else kept.where(loss, 0) * scale
    return loss.sum() / scale.sum() if reduction == "mean" else reduced(loss, reduction)


def _surprise(logits: Any, target: Any, axis: int) -> Any:
    """-log(softmax(x)[c]) = (m - x[c]) + log(sum of exp(x - m)), where m is the greatest x: only
    x[c] is read once more, not the row.
    """
    logits = floats(logits)
    top = logits.detach().amax(axis, True)
    place = target.cast(dtypes.int64).unsqueeze(axis)
    place = placed(place, logits.shape[axis], axis, "target classes")
    found = derive(build.gather, (logits, place), axis)
    apart = (top - found).squeeze(axis)
    return apart + (logits - top).exp().sum(axis).log()


def _picked(logs: Any, target: Any, axis: int) -> Any:
    """The logs at the classes that `target` names, by comparison: it fuses with what makes them.

    The class goes through a table of all classes, so that one that does not exist raises.
    """
    device = logs.device
    classes = make(iota(logs.shape[axis], device), device)
    wide = target.cast(dtypes.int64)
    anywhere = wide.ones_like(dtype=dtypes.bool)
    asked = required(wide, anywhere, logs.shape[axis], axis, "target classes")
    named = derive(build.gather, (classes, asked)).unsqueeze(axis)
    here = named.eq(classes.reshape(-1, *(1,) * (logs.ndim - 1 - axis)))
    return here.where(logs, 0).sum(axis)


def _check_target(logs: Any, target: Any, axis: int, weight: Any) -> None:
    if weight is not None and weight.shape != (logs.shape[axis],):
        what = f"a weight for each of {logs.shape[axis]} classes is needed"
        raise located(ShapeError(what), (logs, weight))
    if not target.dtype.is_int:
        raise located(
            DTypeError(f"target classes are integers, not {target.dtype}"), (logs, target)
        )
    expected = (*logs.shape[:axis], *logs.shape[axis + 1 :])
    if target.shape != expected:
        raise located(ShapeError(f"targets must have shape {expected}"), (logs, target))
