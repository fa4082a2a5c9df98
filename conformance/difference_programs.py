"""The programs of docs/differences.md, by topic.

A topic is a heading, why torpor differs, and its programs. In a program `torpor` stands for the
library, so the same text is PyTorch's with `torch` in its place. After `~`, here or on the
next line, stands NumPy's program, where NumPy has one that is worth comparing.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Topic(NamedTuple):
    """A heading, a text under it, and lines of programs."""

    heading: str
    why: str
    programs: str


TOPICS: Final = (
    Topic(
        "Which format a result has",
        "Tensors promote by the array API standard's lattice, also those without axes, and in "
        "products and losses too. Numbers of Python and NumPy are weak, and one that does not fit "
        "is an error rather than another number. float8 meets no other format.",
        """
torpor.tensor([1], dtype=torpor.int8) + torpor.tensor(1) ~ np.ones(1, np.int8) + np.array(1)
torpor.tensor([1.0]) * torpor.tensor(2.0, dtype=torpor.float64)
torpor.result_type(torpor.tensor([1], dtype=torpor.int8), torpor.tensor(1)).itemsize
torpor.where(torpor.tensor(True), torpor.tensor(1.0, dtype=torpor.float64), torpor.tensor([1.0]))
torpor.tensor([1], dtype=torpor.uint16) + torpor.tensor([1], dtype=torpor.int16)
torpor.tensor([1], dtype=torpor.uint32) + torpor.tensor([1], dtype=torpor.int8)
torpor.tensor([1], dtype=torpor.int8) + 300 ~ np.ones(1, np.int8) + 300
torpor.tensor([200], dtype=torpor.uint8) + (-1) ~ np.array([200], np.uint8) + (-1)
torpor.tensor([-1], dtype=torpor.uint8) ~ np.array([-1], np.uint8)
torpor.tensor([1.0], dtype=torpor.float8_e5m2) + 1
torpor.tensor([np.float64(1)]) ~ np.array([np.float64(1)])
torpor.zeros(1, dtype=float) ~ np.zeros(1, dtype=float)
torpor.Tensor([1, 2])
torpor.Tensor(3).ndim
torpor.tensor([2.0]) @ torpor.tensor([3]) ~ np.array([2.0]) @ np.array([3])
torpor.zeros(1, 2) @ torpor.zeros(2, 1, dtype=torpor.float16)
torpor.addmm(torpor.zeros(1, 1), torpor.ones(1, 1), torpor.ones(1, 1, dtype=torpor.float64))
torpor.dot(torpor.tensor([True]), torpor.tensor([True])) ~ np.dot([True], [True])
torpor.mm(torpor.tensor([[True]]), torpor.tensor([[True]]))
torpor.dot(torpor.ones(1, 2), torpor.ones(2))
torpor.tensor([1.0]).lerp(torpor.tensor([2.0], dtype=torpor.float64), 0.5)
torpor.nn.Linear(2, 2)(torpor.zeros(1, 2, dtype=torpor.float64)).dtype.itemsize
torpor.nn.functional.softmax(torpor.tensor([0, 0]), 0)
torpor.einsum("ij->j", torpor.ones(1, 2, dtype=torpor.int16))
~ np.einsum("ij->j", np.ones((1, 2), np.int16))
torpor.tensor([3, 4]).norm() ~ np.linalg.norm([3, 4])
""",
    ),
    Topic(
        "Numbers",
        "Integers are exact or an error: a negative power or shift and a division by zero raise. "
        "A float becomes an integer by truncation, held at the ends, NaN as 0, on every target. A "
        "cast to float8_e4m3fn, which has no infinities, makes NaN of what is beyond its largest "
        "number. A number that an integer format cannot hold is compared for what it is. Signs "
        "and steps keep NaN; in "
        "what is sorted it comes last. Products of matrices times 0 are 0, also in `baddbmm`, "
        "where PyTorch's depend on the size.",
        """
torpor.tensor([2]) ** torpor.tensor([-1]) ~ np.array([2]) ** np.array([-1])
2 ** torpor.tensor([-1]) ~ 2 ** np.array([-1])
torpor.tensor([8]) << -1 ~ np.array([8]) << -1
torpor.tensor([8]) >> torpor.tensor([-1]) ~ np.array([8]) >> np.array([-1])
torpor.tensor([1]) // torpor.tensor([0]) ~ np.array([1]) // np.array([0])
torpor.tensor([1]) % 0 ~ np.array([1]) % 0
torpor.tensor([float("nan")]).sign() ~ np.sign([np.nan])
torpor.tensor([float("nan")]).heaviside(torpor.tensor([1.0])) ~ np.heaviside([np.nan], [1.0])
torpor.searchsorted(torpor.tensor([1.0, float("nan")]), torpor.tensor([3.0]))
~ np.searchsorted([1.0, np.nan], [3.0])
torpor.zeros(1, 1, 1).baddbmm(torpor.tensor([[[np.inf]]]), torpor.ones(1, 1, 1), alpha=0)
torpor.tensor([1], dtype=torpor.uint8) > 256 ~ np.ones(1, np.uint8) > 256
torpor.tensor([3e10]).int() ~ np.array([3e10]).astype(np.int32)
torpor.tensor([float("nan")]).int() ~ np.array([np.nan]).astype(np.int32)
torpor.tensor([float("inf")]).long() ~ np.array([np.inf]).astype(np.int64)
torpor.tensor([300.0]).to(torpor.uint8) ~ np.array([300.0]).astype(np.uint8)
torpor.tensor([-1.0]).to(torpor.uint8) ~ np.array([-1.0]).astype(np.uint8)
torpor.tensor([464.0, 500.0]).to(torpor.float8_e4m3fn).float()
torpor.tensor([float("inf")]).to(torpor.float8_e4m3fn).float()
""",
    ),
    Topic(
        "Indices",
        "Slices have any step. Only `x[i]`, `take` and `put` count from the end. Empty ranges "
        "are empty. What depends on the "
        "values of indices raises when the result is needed.",
        """
torpor.tensor([1, 2])[::-1] ~ np.array([1, 2])[::-1]
torpor.arange(5, 0) ~ np.arange(5, 0)
torpor.zeros(2, 2)[[[0, 1], [1, 0]]].ndim ~ np.zeros((2, 2))[[[0, 1], [1, 0]]].ndim
torpor.arange(3)[torpor.tensor([5])] ~ np.arange(3)[np.array([5])]
torpor.tensor([1, 2]).gather(0, torpor.tensor([-1]))
~ np.take_along_axis(np.array([1, 2]), np.array([-1]), 0)
torpor.tensor([1, 2]).index_select(0, torpor.tensor([-1])) ~ np.take([1, 2], [-1])
torpor.zeros(2).index_fill(0, torpor.tensor([-1]), 1)
torpor.zeros(2).scatter(0, torpor.tensor([-1]), 5.0)
torpor.zeros(2).scatter(0, torpor.zeros(1, 0, dtype=torpor.int64), 5.0)
torpor.nn.functional.embedding(torpor.tensor([5]), torpor.ones(2, 2))
torpor.nn.functional.one_hot(torpor.tensor([5]), 3)
torpor.nn.functional.cross_entropy(torpor.zeros(1, 3), torpor.tensor([7]))
list(range(torpor.tensor([2]))) ~ list(range(np.array([2])))
[10, 20][torpor.tensor([1])] ~ [10, 20][np.array([1])]
""",
    ),
    Topic(
        "Views and writing",
        "`reshape` and `view` always alias, whatever the strides, and an operation in place reads "
        "all before it writes; `contiguous` is a copy, as are x[i] of a 0-d tensor i, `conj` and "
        "`view_as_real`. Windows cannot be written to. What NumPy gets or gives is a snapshot; "
        "what comes by `from_numpy` and DLPack shares memory, and what is handed on by DLPack "
        "does until the tensor is written to.",
        """
x = torpor.arange(4).reshape(2, 2).T; y = x.reshape(4); y[0] = 9; x
~ x = np.arange(4).reshape(2, 2).T; y = x.reshape(4); y[0] = 9; x
torpor.zeros(2, 3).t().view(6)
x = torpor.arange(4); x[1:] += x[:-1]; x ~ x = np.arange(4); x[1:] += x[:-1]; x
x = torpor.arange(4); x[1:].copy_(x[:-1]); x ~ x = np.arange(4); np.copyto(x[1:], x[:-1]); x
x = torpor.zeros(1); y = x.contiguous(); y += 1; x
x = torpor.zeros(3); x.unfold(0, 1, 1)[0] = 5; x
x = torpor.zeros(2); y = x[torpor.tensor(0)]; y += 1; x
~ x = np.zeros(2); y = x[np.array(0)]; y += 1; x
x = torpor.tensor([1j]); y = x.conj(); y += 1; x ~ x = np.array([1j]); y = x.conj(); y += 1; x
z = torpor.tensor([1j]); torpor.view_as_real(z)[0, 0] = 5; z
a = np.zeros(1); x = torpor.as_tensor(a); a[0] = 5; x
~ a = np.zeros(1); x = np.asarray(a); a[0] = 5; x
x = torpor.zeros(1); a = x.numpy(); a[0] = 5; x
x = torpor.zeros(1); a = x.numpy(); x += 1; a
x = torpor.zeros(1); a = np.from_dlpack(x); x += 1; a
x = torpor.zeros(1); a = np.asarray(x); a[0] = 5; x
~ x = np.zeros(1); a = np.asarray(x); a[0] = 5; x
torpor.tensor(np.array([1, 2])[::-1])
torpor.ones(2, requires_grad=True).numpy()
""",
    ),
    Topic(
        "Gradients",
        "A graph is never freed or changed: what was written to in place keeps its gradient, and "
        "two tensors may share a part of a graph. A detached view has no gradient, whatever is "
        "written to it. A second `backward` or `autograd.grad` of the same tensor is an "
        "error in both where the gradient is made of values. Parts that `unbind` and `split` give "
        "may be written to. `vmap` draws another number for each. "
        "The gradient of a product is the product of the others, not divided by "
        "what it is of, and what a constant takes the place of has the gradient 0, also beside "
        "infinities. Sums of exponentials that are 0 so far have slope 0, and the "
        "largest of one number has slope 1. Where "
        "the value of `x ** -0.5` or `x ** 1.5` is NaN, the gradient may be another, and "
        "where g / y of x / y is infinite and x is 0. Of several numbers that are written to one "
        "place the last has a gradient. What `as_strided_scatter` writes over has "
        "the gradient 0. A least or greatest number is not shared with what is not included. "
        "Operations keep no tensors: `saved_tensors_hooks` see what a `Function` keeps alone.",
        """
x = torpor.tensor([0.0], requires_grad=True); y = x.exp(); y += 1; y.sum().backward(); x.grad
x = torpor.tensor([0.0], requires_grad=True); y = x.exp(); y.backward(); (-y).backward(); x.grad
x = torpor.ones(1, requires_grad=True); y = x * 2; y.backward(); y.backward(); x.grad
x = torpor.ones(2, requires_grad=True); (x * 1).unbind(0)[0].mul_(2).item()
torpor.vmap(lambda x: torpor.rand(1) * 0 + x)(torpor.zeros(2))
w = torpor.ones(1, requires_grad=True); x = torpor.zeros(1).detach(); x.copy_(w); x.requires_grad
x = torpor.tensor([2.0, np.inf], requires_grad=True); x.prod().backward(); x.grad
x = torpor.tensor([np.inf], requires_grad=True); x.nan_to_num().square().backward(); x.grad
x = torpor.tensor([np.nan], requires_grad=True); x.copysign(x).backward(); x.grad
x = torpor.tensor([np.inf], requires_grad=True); x.logcumsumexp(0).backward(); x.grad
x = torpor.tensor([-np.inf, 0.0], requires_grad=True); x.logcumsumexp(0).sum().backward(); x.grad
x = torpor.tensor([np.nan], requires_grad=True); x.amax(0).backward(); x.grad
x = torpor.tensor([-np.inf], requires_grad=True); (x ** -0.5).backward(); x.grad
x = torpor.tensor([-np.inf], requires_grad=True); (x ** 1.5).backward(); x.grad
x = torpor.tensor([1e-40], requires_grad=True); (torpor.zeros(1) / x).backward(); x.grad
y = torpor.tensor([0.0], requires_grad=True); (torpor.tensor([np.inf]) % y).backward(); y.grad
x = torpor.zeros(1); v = torpor.ones(2, requires_grad=True); \
x[torpor.tensor([0, 0])] = v; x.sum().backward(); v.grad
x = torpor.zeros(3, requires_grad=True); \
torpor.as_strided_scatter(x, torpor.ones(1), (1,), (1,), 0).sum().backward(); x.grad
x = torpor.ones(1, requires_grad=True); torpor.ones(1).scatter_reduce(0, torpor.tensor([0]), x, \
"amax", include_self=False).backward(); x.grad
x = torpor.tensor([1j], requires_grad=True); type(x.register_hook(abs)).__name__
torpor.autograd.graph.Node.__name__
""",
    ),
    Topic(
        "Modules and optimisers",
        "Leaves that require a gradient are parameters wherever a module holds them. An "
        "optimiser's state is there from the beginning. A mask of attention that is called causal "
        "holds for what is put beside the keys, too.",
        """
m = torpor.nn.Module(); m.w = torpor.zeros(1, requires_grad=True); list(m.state_dict())
m = torpor.nn.Module(); m.layers = [torpor.nn.Linear(1, 1)]; list(m.state_dict())
len(torpor.optim.Adam([torpor.zeros(1, requires_grad=True)]).state)
m = torpor.nn.MultiheadAttention(1, 1, add_zero_attn=True); [p.data.fill_(1.0) for p in \
m.parameters()]; x = torpor.tensor([[2.0], [-1.0]]); mask = torpor.ones(2, 2).triu(1).bool(); \
m(x, x, x, attn_mask=mask, is_causal=True, need_weights=False)[0][1]
""",
    ),
    Topic(
        "Random numbers",
        "A seed gives the same numbers on every device (where multiply-adds are fused, up to a "
        "last bit of the functions applied) and in a jit, and others than PyTorch's. "
        "Parameters that make no sense raise when a draw is needed, or at once where they are "
        "known.",
        """
torpor.manual_seed(0); torpor.rand(2)
torpor.distributions.Normal(0.0, torpor.rand(1) - 2).sample()
torpor.bernoulli(torpor.tensor([2.0]))
torpor.multinomial(torpor.tensor([-1.0, 2.0]), 1)
torpor.multinomial(torpor.tensor([0.0, 1.0]), 2)
""",
    ),
    Topic(
        "Names and texts",
        "`size` is a number that can be called. `T` is for at most two axes, `mT` for stacks. "
        "`data` can be called for the memory. Tensors print as NumPy's arrays do, modules "
        "with what has no default, another value, or is a float. Formats and devices have names of "
        "their own; a name that is missing says what there is instead.",
        """
torpor.zeros(2, 3).size + 0 ~ np.zeros((2, 3)).size + 0
torpor.zeros(2, 3).data().shape ~ np.zeros((2, 3)).data.shape
tuple(torpor.zeros(2, 3, 4).T.shape) ~ np.zeros((2, 3, 4)).T.shape
str(torpor.tensor([1.5, 2.0]))
str(torpor.nn.Dropout(0.5))
str(torpor.float32)
torpor.float32.name
str(torpor.zeros(1).device)
torpor.tensor([5]).one_hot(6)
torpor.zeros(1, dtype=torpor.complex32).element_size()
torpor.linalg.ldl_factor(torpor.eye(1)).LD
callable(torpor.compile)
""",
    ),
    Topic(
        "Where NumPy means something else",
        "torpor and PyTorch agree here. `torpor.array_api` has the standard's meanings, which are "
        "mostly NumPy's.",
        """
torpor.tensor([1.0]) ~ np.array([1.0])
torpor.tensor([1], dtype=torpor.uint64).sum() ~ np.ones(1, np.uint64).sum()
torpor.tensor([1, 2]).mean() ~ np.array([1, 2]).mean()
torpor.tensor([1.0, 2.0]).std() ~ np.std([1.0, 2.0])
torpor.tensor([4, 1, 3, 2]).median() ~ np.median([4, 1, 3, 2])
torpor.tensor([[1, 2]]).max(1).indices ~ np.array([[1, 2]]).max(1)
torpor.tensor([5, 6])[torpor.tensor([1, 0], dtype=torpor.uint8)]
~ np.array([5, 6])[np.array([1, 0], np.uint8)]
torpor.tensor([2, 1]).sort().indices ~ np.sort([2, 1])
torpor.tensor([1, 2]).repeat(2) ~ np.repeat([1, 2], 2)
torpor.tensor([0, 7]).nonzero() ~ np.nonzero([0, 7])[0]
[len(part) for part in torpor.arange(6).split(2)]
~ [len(part) for part in np.split(np.arange(6), 2)]
torpor.meshgrid(torpor.arange(2), torpor.arange(3), indexing="ij")[0].shape[0]
~ np.meshgrid(np.arange(2), np.arange(3))[0].shape[0]
torpor.zeros(1, 2).squeeze(1).shape[1] ~ np.zeros((1, 2)).squeeze(1).shape[1]
torpor.tensor([1, 2]) == [1, 2] ~ np.array([1, 2]) == [1, 2]
torpor.tensor([1, 2]) + [1, 2] ~ np.array([1, 2]) + [1, 2]
torpor.tensor([1, 2]).exp() ~ np.exp([1, 2])
torpor.tensor([1], dtype=torpor.int8) / 2 ~ np.ones(1, np.int8) / 2
torpor.tensor([1], dtype=torpor.float16) / torpor.tensor([3])
~ np.ones(1, np.float16) / np.array([3])
torpor.tensor([]).mean() ~ np.mean([])
torpor.tensor([1.0]).std() ~ np.std([1.0])
""",
    ),
)
