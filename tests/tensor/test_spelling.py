"""Keywords of several libraries mean the same; errors name the method, and what was meant."""

import pytest

import torpor
from torpor import Tensor
from torpor.base.errors import ShapeError


@pytest.mark.parametrize("name", ["sum", "amax", "softmax", "cumsum", "argmax", "sort"])
def test_wrong_axes_are_named(name):
    with pytest.raises(ShapeError, match=rf"{name}.*axis 2 .*\n  \(2, 3\) float32 on CPU, made at"):
        getattr(Tensor.ones(2, 3), name)(axis=2)


X = Tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
F = torpor.nn.functional


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda: X.sum(axes=0, keepdims=True), lambda: X.sum(0, True)),
        (lambda: X.softmax(dims=1), lambda: X.softmax(1)),
        (lambda: torpor.softmax(X, axis=0), lambda: X.softmax(0)),
        (lambda: X.permute(axes=(1, 0)), lambda: X.T),
        (lambda: X.permute(dims=(1, 0)), lambda: X.T),
        (lambda: X.view(size=(3, 2)), lambda: X.reshape(3, 2)),
        (lambda: torpor.reshape(X, shape=(6,)), lambda: X.reshape(6)),
        (lambda: X.flip(axis=0), lambda: X.flip(0)),
        (lambda: X.expand(size=(1, 2, 3)), lambda: X.unsqueeze(0)),
        (lambda: X.swapaxes(axis0=0, axis1=1), lambda: X.T),
        (lambda: torpor.zeros(shape=(2, 3)), lambda: torpor.zeros(2, 3)),
        (lambda: torpor.zeros(2, layout=torpor.strided), lambda: torpor.zeros(2)),
        (lambda: X.clone(memory_format=torpor.contiguous_format), lambda: X),
        (lambda: torpor.cat(tensors=[X, X], axis=1), lambda: torpor.cat([X, X], 1)),
        (lambda: torpor.stack(arrays=(X, X)), lambda: torpor.stack([X, X])),
        (lambda: torpor.clip(X, a_min=2, a_max=3), lambda: X.clamp(2, 3)),
        (lambda: X.mm(mat2=X.T), lambda: X @ X.T),
        (lambda: X[0].outer(vec2=X[1]), lambda: X[0].outer(X[1])),
        (lambda: torpor.take_along_dim(X, indices=X.argsort(1), dim=1), lambda: X.sort(1)[0]),
        (lambda: torpor.fft.fft(X, axis=0).real, lambda: torpor.fft.fft(X, dim=0).real),
        (lambda: torpor.linalg.norm(X, axis=1), lambda: X.norm(dim=1)),
        (lambda: Tensor([1 + 1j]).sum(axis=0).real, lambda: Tensor(1.0)),
        (lambda: torpor.isin(elements=X, test_elements=X[0]), lambda: X <= 3),
    ],
)
def test_words_that_mean_the_same(one, other):
    assert one().tolist() == other().tolist()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: X.sum(keep_dim=True), r"sum\(\) has no argument 'keep_dim'; .*'keepdim'.*dtype"),
        (lambda: torpor.sum(X, dmi=1), "did you mean 'dim'"),
        (lambda: X.reshape(shap=(6,)), "did you mean 'shape'"),
        (lambda: X.softmax(dtyp="float64"), "did you mean 'dtype'"),
        (lambda: torpor.zeros(3, dtyp="int"), "did you mean 'dtype'"),
        (lambda: Tensor.rand(3, generatr=None), "did you mean 'generator'"),
        (lambda: torpor.fft.fft(X, nrm="ortho"), "did you mean 'norm'"),
        (lambda: torpor.linalg.norm(X, keepdimm=True), "did you mean 'keepdim'"),
        (lambda: F.embedding(X, X, padding_index=1), "did you mean 'padding_idx'"),
        (lambda: F.cross_entropy(X, X, label_smoothin=1), "did you mean 'label_smoothing'"),
        (lambda: Tensor([1j]).sum(keep_dim=True), "did you mean 'keepdim'"),
        (lambda: torpor.sum(dim=1), "needs a tensor"),
        (lambda: X.to("flot16"), "unknown dtype 'flot16'; did you mean 'float16'"),
        (lambda: X.to(dtype="wide"), "unknown dtype 'wide'"),
        (lambda: Tensor([1], dtype="in64"), "did you mean 'int64'"),
    ],
)
def test_misspelt_words_are_told_what_was_meant(call, text):
    with pytest.raises(TypeError, match=text):
        call()
