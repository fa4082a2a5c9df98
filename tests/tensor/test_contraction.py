import math

import numpy as np
import pytest

import torpor
from tests.tensor.layouts import check, numbers
from torpor import Tensor
from torpor.base.errors import ShapeError

SHAPES = [
    ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)),
    ((5, 2, 3), (5, 3, 4)), ((2, 1, 2, 3), (5, 3, 4)), ((3,), (5, 3, 4)), ((5, 2, 3), (3,)),
    ((0, 3), (3, 4)), ((2, 0), (0, 4)),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right"), SHAPES, ids=str)
def test_matmul(left, right):
    a, b = numbers(left, "float64"), numbers(right, "float64", seed=1)
    check(Tensor(a) @ Tensor(b), a @ b)


def test_matmul_of_layouts_and_formats():
    a, b = numbers((4, 6)), numbers((4, 6), seed=1)
    check(Tensor(a) @ Tensor(b).T, a @ b.T, 1e-5)
    check(Tensor(a)[::2, ::-1] @ Tensor(b)[1:].T, a[::2, ::-1] @ b[1:].T, 1e-5)
    whole = numbers((4, 6), "int32")
    check(Tensor(whole) @ Tensor(whole).T, whole @ whole.T)
    half = np.ones((2, 4000), np.float16)
    check(Tensor(half) @ Tensor(half).T, np.full((2, 2), 4000, np.float16))


def test_matmul_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match=r"\(2, 3\) by \(4, 5\)"):
        Tensor.ones(2, 3) @ Tensor.ones(4, 5)
    with pytest.raises(ValueError, match="multiply"):
        Tensor.ones(2, 3) @ Tensor(1.0)


def test_linear_outer_and_tensordot():
    a, w, b = numbers((5, 3)), numbers((4, 3), seed=1), numbers((4,), seed=2)
    check(Tensor(a).linear(Tensor(w), Tensor(b)), a @ w.T + b, 1e-5)
    check(Tensor(b).outer(Tensor(b)), np.outer(b, b))
    check(Tensor(a).tensordot(Tensor(w), 0), np.tensordot(a, w, 0))
    check(Tensor(a).tensordot(Tensor(w), ([1], [1])), np.tensordot(a, w, ([1], [1])), 1e-5)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", ((2, 3), (3, 4))),
        ("ij,jk", ((2, 3), (3, 4))),
        ("bij,bjk->bik", ((5, 2, 3), (5, 3, 4))),
        ("...ij,...jk->...ik", ((5, 2, 3), (3, 4))),
        ("ii->i", ((3, 3),)),
        ("ii", ((3, 3),)),
        ("ij->ji", ((2, 3),)),
        ("i,j,k->kij", ((2,), (3,), (4,))),
        ("abcd->db", ((2, 3, 2, 3),)),
    ],
)
def test_einsum(equation, shapes):
    arrays = [numbers(shape, "float64", seed=i) for i, shape in enumerate(shapes)]
    made = torpor.einsum(equation, *[Tensor(a) for a in arrays])
    check(made, np.einsum(equation, *arrays))


@pytest.mark.parametrize(("equation", "shapes", "most"), [
    ("ij,jk,kl->il", ((40, 50), (50, 8), (8, 60)), 2 * 8 * (40 * 50 + 40 * 60)),
    ("ab,bc,cd,de->ae", ((8, 40), (40, 30), (30, 20), (20, 4)), 2 * 4 * (600 + 1200 + 320)),
    ("bij,jk,bkl->bil", ((3, 6, 40), (40, 5), (3, 5, 30)), 2 * 3 * 6 * (200 + 150)),
    ("ij,kl->", ((60, 70), (80, 90)), 60 * 70 + 80 * 90),
    ("...i,ij,j...->...", ((2, 40), (40, 50), (50, 2)), 2 * 2 * (2000 + 50)),
], ids=str)  # fmt: skip
def test_einsum_multiplies_in_the_order_of_fewest_operations(equation, shapes, most):
    arrays = [numbers(shape, "float64", seed=n) for n, shape in enumerate(shapes)]
    made = torpor.einsum(equation, *[Tensor(a).realize() for a in arrays])
    assert sum(program.ops for program in torpor.lower(made)) < 2 * most
    check(made, np.einsum(equation, *arrays), 1e-10)


def test_einsum_of_a_length_that_is_known_when_it_runs():
    rows = torpor.Variable("rows", 1, 5)
    a, b, c = numbers((5, 6)), numbers((6, 7), seed=1), numbers((7, 4), seed=2)
    made = torpor.einsum("ij,jk,kl->il", Tensor(a)[: rows.bind(3)], Tensor(b), Tensor(c))
    check(made.sum(0), (a[:3] @ b @ c).sum(0), 1e-5)


def test_attention():
    query, key, value = (numbers((2, 3, 4, 5), "float64", seed=i) for i in range(3))
    scores = query @ key.swapaxes(-1, -2) / np.sqrt(5)
    scores = np.where(np.tril(np.ones((4, 4), bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    found = Tensor(query).scaled_dot_product_attention(Tensor(key), Tensor(value), is_causal=True)
    check(found, weights @ value)


@pytest.mark.parametrize("equation", ["ij,jk->iz", "i1,jk->i", "ij,ik->jk"])
def test_equations_that_do_not_fit_are_refused(equation):
    with pytest.raises(ValueError, match="einsum"):
        torpor.einsum(equation, Tensor.ones(2, 3), Tensor.ones(4, 2))


def test_sums_of_a_multiple_and_a_product():
    a, b, c = (numbers(shape, "float64") for shape in ((2, 3), (3, 4), (4,)))
    check(Tensor(c).addmm(Tensor(a), Tensor(b), beta=0.5, alpha=2), 0.5 * c + 2 * (a @ b))
    check(Tensor(c).float().addmm(Tensor(a), Tensor(b)), c.astype("f4") + a @ b)
    unknown = Tensor(np.array([np.nan, np.inf, 1, 2]))
    check(unknown.addmm(Tensor(a), Tensor(b), beta=0), a @ b)  # is not looked at
    with pytest.raises(ValueError, match="expand"):
        Tensor(np.ones((3, 4))).addmm(Tensor(a), Tensor(b))


def test_masks_of_attention():
    x = Tensor.ones(2, 3, 4)
    with pytest.raises(ValueError, match="not both"):
        x.scaled_dot_product_attention(x, x, Tensor.ones(3, 3) > 0, is_causal=True)
    with pytest.raises(TypeError, match="bools or floats"):
        x.scaled_dot_product_attention(x, x, Tensor.ones(3, 3, dtype="int64"))


@pytest.mark.parametrize(
    "call",
    [
        lambda v, m: v.mm(m),
        lambda v, m: m.mm(v),
        lambda v, m: m.mv(m),
        lambda v, m: m.bmm(m),
        lambda v, m: m.outer(v),
        lambda v, m: m.tensordot(m, 3),
        lambda v, m: m.tensordot(m, -1),
    ],
)
def test_products_of_so_many_axes_take_no_others(call):
    with pytest.raises(ValueError, match=r"mm is for|mv is for|outer is for|number of axes"):
        call(Tensor.ones(2), Tensor.ones(2, 2))


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
def test_attention_that_may_look_nowhere_gives_0(kind):
    query, key, value = (Tensor(numbers((2, 3, 4), kind, seed=n)) for n in range(3))
    query.requires_grad_()
    seen = np.array([[True, False, True], [False] * 3, [True] * 3])
    added = Tensor(np.where(seen, 0.0, -np.inf)).cast(kind)
    for mask in (Tensor(seen), added):
        found = query.scaled_dot_product_attention(key, value, mask)
        slope = found.sum().gradient(query)[0].numpy()
        assert not found.numpy()[:, 1].any() and found.numpy()[:, [0, 2]].all()
        assert not slope[:, 1].any() and slope[:, [0, 2]].all()
    few = query.scaled_dot_product_attention(key[:, :1], value[:, :1], Tensor(seen[:, 1:2]))
    check(few.detach()[:, 2], value.numpy()[:, 0])
    assert not few.numpy()[:, :2].any()


def test_attention_without_keys_or_width():
    value = Tensor([[[1.0, 2.0], [3.0, 6.0]]])
    nothing = Tensor.ones(1, 3, 4).scaled_dot_product_attention(
        Tensor.ones(1, 0, 4), Tensor.ones(1, 0, 2)
    )
    check(nothing, np.zeros((1, 3, 2), np.float32))
    even = Tensor.ones(1, 3, 0).scaled_dot_product_attention(Tensor.ones(1, 2, 0), value)
    check(even, np.full((1, 3, 2), [2.0, 4.0], np.float32))


def test_scores_of_16_bits_do_not_overflow():
    large = Tensor.full((1, 2, 4), 300.0, dtype="float16")
    found = large.scaled_dot_product_attention(large, Tensor.ones(1, 2, 4, dtype="float16"))
    check(found, np.ones((1, 2, 4), np.float16))


def test_factors_of_0_ignore_what_they_multiply():
    ones, unknown = Tensor.ones(2, 2), Tensor.full((2, 2), math.nan)
    check(unknown.addmm(ones, ones, beta=0), np.full((2, 2), 2, np.float32))
    check(ones.addmm(unknown, ones, alpha=0), np.ones((2, 2), np.float32))
    left = Tensor.ones(2, 2).requires_grad_()
    check(ones.addmm(left, ones, alpha=0).sum().gradient(left)[0], np.zeros((2, 2), np.float32))


def test_batches_of_bmm_are_as_many():
    with pytest.raises(ValueError, match="2 and 1 matrices"):
        Tensor.ones(2, 2, 2).bmm(Tensor.ones(1, 2, 2))


def test_heads_of_keys_shared_by_several_of_queries():
    random = np.random.default_rng(2)
    query, key, value = (random.normal(size=(2, h, 5, 3)) for h in (6, 2, 2))
    made = Tensor(query).scaled_dot_product_attention(Tensor(key), Tensor(value), enable_gqa=True)
    scores = query @ np.repeat(key, 3, 1).swapaxes(-1, -2) / np.sqrt(3)
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    np.testing.assert_allclose(made.numpy(), weights @ np.repeat(value, 3, 1), 1e-12)
    with pytest.raises(ShapeError, match="4 heads of keys cannot be shared by 6"):
        Tensor(query).scaled_dot_product_attention(
            Tensor(query[:, :4]), Tensor(query[:, :4]), enable_gqa=True
        )


def test_factors_of_integers_lose_their_fractions():
    """As in PyTorch: alpha 1.9 counts as 1 and beta -0.6 as 0, of matrices and of vectors."""
    matrix, vector = Tensor([[1, 2], [3, 4]]), Tensor([1, 2])
    check(vector.addmv(matrix, vector, alpha=1.9, beta=-0.6), np.array([5, 11]))
    stack = matrix.reshape(1, 2, 2)
    check(matrix.addbmm(stack, stack, alpha=0.9, beta=2.5), np.array([[2, 4], [6, 8]]))


def test_einsum_of_numbers_for_letters():
    x, y = (np.random.default_rng(seed).standard_normal((3, 4)) for seed in (1, 2))
    for given in ((x, [0, 1], [1, 0]), (x, [0, 1], y, [2, 1], [0, 2]), (x, [0, 1], y, [0, 1]),
                  (x, [..., 0], y, [..., 0], [...])):  # fmt: skip
        ours = [Tensor(one) if isinstance(one, np.ndarray) else one for one in given]
        np.testing.assert_allclose(torpor.einsum(*ours).numpy(), np.einsum(*given), rtol=1e-12)


def test_einsum_sums_an_axis_that_broadcasts_of_the_other_operand_alone():
    """As NumPy and PyTorch do: (-1 + 2 + 3) inf, not -inf + inf + inf."""
    long, one = np.float32([[-1, 2, 3]]), np.float32([[np.inf]])
    for equation in ("...i,...i->...", "ai,ai->a"):
        assert torpor.einsum(equation, Tensor(long), Tensor(one)).tolist() == [math.inf]
    left, right = numbers((2, 1, 4, 1), "float64"), numbers((3, 5, 6), "float64", seed=1)
    found = torpor.einsum("...ij,...jk->...ik", Tensor(left), Tensor(right)).numpy()
    np.testing.assert_allclose(found, left * right.sum(1, keepdims=True), rtol=1e-12)
