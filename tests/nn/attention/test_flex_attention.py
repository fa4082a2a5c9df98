"""Attention with changed and masked scores against NumPy's in float64 and PyTorch's."""

import numpy as np
import pytest

import torpor
from torpor import Tensor
from torpor.base.errors import DTypeError, ShapeError
from torpor.nn.attention import SDPBackend, flex_attention, sdpa_kernel

RNG = np.random.default_rng(15)
BATCH, HEADS, QUERIES, KEYS, WIDTH = 2, 4, 6, 5, 8
SLOPES = RNG.standard_normal(HEADS).astype("f4")
KINDS = RNG.integers(0, 2, (BATCH, KEYS))


def given(heads=HEADS):
    sizes = (HEADS, QUERIES), (heads, KEYS), (heads, KEYS)
    return [RNG.standard_normal((BATCH, *size, WIDTH)).astype("f4") for size in sizes]


def programs(library):
    """Scores that differ by head and distance, and a mask that reads a table by batch and key."""
    slopes, kinds = library.tensor(SLOPES), library.tensor(KINDS)

    def score(one, b, h, query, key):
        return one + slopes[h] * (query - key)

    def mask(b, h, query, key):
        return (query > key) & (kinds[b][key] == 1)

    return score, mask


def expected(query, key, value, scale=WIDTH**-0.5):
    q, k = np.arange(QUERIES)[:, None], np.arange(KEYS)
    scores = query.astype("f8") @ key.astype("f8").swapaxes(2, 3) * scale
    scores = scores + SLOPES[:, None, None] * (q - k)
    looks = (q > k) & (KINDS[:, None, None, :] == 1)
    weights = np.exp(np.where(looks, scores, -np.inf))
    total = weights.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        return weights / np.where(total == 0, 1, total) @ value, np.log(total[..., 0])


def test_scores_are_changed_and_masked():
    arrays = given()
    score, mask = programs(torpor)
    block = flex_attention.create_block_mask(mask, BATCH, None, QUERIES, KEYS)
    tensors = [Tensor(one) for one in arrays]
    made, lse = flex_attention.flex_attention(*tensors, score, block, scale=0.5, return_lse=True)
    asked = flex_attention.AuxRequest(max_scores=True)
    _, aux = flex_attention.flex_attention(*tensors, return_aux=asked)
    top = (arrays[0] @ arrays[1].swapaxes(2, 3)).max(-1) * WIDTH**-0.5
    np.testing.assert_allclose(aux.max_scores.numpy(), top, atol=1e-5)
    result, total = expected(*arrays, 0.5)
    np.testing.assert_allclose(made.numpy(), result, atol=1e-5)
    np.testing.assert_allclose(lse.numpy(), total, atol=1e-5)
    assert not made.numpy()[:, :, 0].any(), "the first query looks nowhere"


def test_values_are_pytorchs():
    torch = pytest.importorskip("torch")
    from torch.nn.attention import flex_attention as theirs

    arrays, found = given(2), []
    for library, room in ((torch, theirs), (torpor, flex_attention)):
        score, mask = programs(library)
        both = room.or_masks(mask, room.and_masks(lambda b, h, query, key: query == key))
        block = room.create_block_mask(both, BATCH, None, QUERIES, KEYS, device="cpu")
        tensors = [library.tensor(one) for one in arrays]
        made, aux = room.flex_attention(
            *tensors, score, block, enable_gqa=True, return_aux=room.AuxRequest(lse=True)
        )
        assert aux.max_scores is None
        found.append([np.asarray(one) for one in (made, aux.lse)])
        assert block.to_dense().tolist() == [[[[1]]], [[[1]]]]
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5)


def test_gradients_are_those_of_the_scores_written_out():
    arrays = given()
    slopes = Tensor(SLOPES, requires_grad=True)
    query, key = (Tensor.arange(n) for n in (QUERIES, KEYS))
    apart = query.unsqueeze(1) - key

    def written_out(q, k, v):
        bias = slopes.reshape(-1, 1, 1) * apart
        return q.scaled_dot_product_attention(k, v, (apart >= 0).where(bias, -np.inf))

    def by_functions(q, k, v):
        block = flex_attention.create_block_mask(
            lambda b, h, query, key: query >= key, None, None, QUERIES, KEYS
        )
        score = lambda one, b, h, query, key: one + slopes[h] * (query - key)  # noqa: E731
        return flex_attention.flex_attention(q, k, v, score, block)

    found = []
    for attend in (written_out, by_functions):
        tensors = [Tensor(one, requires_grad=True) for one in arrays]
        gradients = attend(*tensors).square().sum().gradient(*tensors, slopes)
        found.append([one.numpy() for one in gradients])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4, rtol=1e-4)


def test_scores_and_functions_are_one_kernel():
    query, key, value = (Tensor(one).realize() for one in given())
    slopes = Tensor(SLOPES).realize()
    block = flex_attention.create_block_mask(
        lambda b, h, query, key: query >= key, None, None, QUERIES, KEYS
    )
    plain = query.scaled_dot_product_attention(key, value)
    made = flex_attention.flex_attention(
        query, key, value, lambda score, b, h, query, key: score + slopes[h] * (query - key), block
    )
    assert len(made.schedule()) <= len(plain.schedule())


def test_masks_and_their_blocks():
    block = flex_attention.create_block_mask(
        lambda b, h, query, key: query >= key, 1, 1, 5, 6, BLOCK_SIZE=2
    )
    dense = [[[[1, 0, 0], [1, 1, 0], [1, 1, 1]]]]
    assert block.to_dense().tolist() == dense
    assert (block.shape, block.numel()) == ((1, 1, 5, 6), 30)
    assert block.sparsity() == pytest.approx(100 / 3)
    assert flex_attention.create_mask(flex_attention.noop_mask, 1, 1, 2, 2).all().item()
    seen = flex_attention.create_mask(
        lambda s, b, h, q, k: (q >= k).where(s, -float("inf")), None, None, 1, 2
    )
    assert seen.tolist() == [[[[True, False]]]]
    with pytest.raises(ShapeError, match="5, 6"):
        flex_attention.flex_attention(*map(Tensor, given()), block_mask=block)
    with pytest.raises(ShapeError, match="4 axes"):
        flex_attention.flex_attention(*[Tensor.ones(2, 3)] * 3)
    with pytest.raises(DTypeError, match="functions"):
        flex_attention.and_masks()


def test_kernels_of_pytorchs_may_be_named():
    x = Tensor.ones(1, 2, 3)
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], set_priority=True):
        assert x.scaled_dot_product_attention(x, x).tolist() == x.tolist()
    with pytest.raises(DTypeError, match="SDPBackend"), sdpa_kernel("math"):
        pass


def test_queries_without_keys_have_zeros():
    query, none = np.ones((1, 2, 3, 4), "float32"), np.ones((1, 2, 0, 4), "float32")
    found = flex_attention.flex_attention(Tensor(query), Tensor(none), Tensor(none))
    assert found.tolist() == np.zeros((1, 2, 3, 4)).tolist()
    torch = pytest.importorskip("torch")
    query, none = torch.tensor(query), torch.tensor(none)
    expected = torch.nn.functional.scaled_dot_product_attention(query, none, none)
    assert found.tolist() == expected.tolist()
