"""PyTorch's autograd by its names: functions with a gradient of their own, hooks, modes."""

import copy

import pytest

import torpor
from torpor import Tensor
from torpor.base.errors import GradientError


def test_hooks_see_and_change_gradients():
    x, seen = Tensor([2.0], requires_grad=True), []
    y = x * 3
    hook = y.register_hook(lambda g: seen.append(g.tolist()))
    changing = y.register_hook(lambda g: g * 2)
    y.retain_grad()
    (y * y).sum().backward()
    assert (seen, y.grad.tolist(), x.grad.tolist()) == ([[12.0]], [24.0], [72.0])
    hook.remove()
    changing.remove()
    assert (y * y).sum().gradient(x)[0].tolist() == [36.0]
    with pytest.raises(GradientError, match="requires"):
        x.detach().register_hook(print)


def test_a_gradient_is_kept_once_however_often_it_is_asked_for():
    x = Tensor([2.0], requires_grad=True)
    y, other = x * 3, x * 3
    x.retain_grad()
    y.register_hook(print)
    assert not y.retains_grad
    for _ in range(2):
        y.retain_grad()
    assert (x.retains_grad, y.retains_grad, other.retains_grad) == (False, True, False)
    (y * other).sum().backward()
    assert (y.grad.tolist(), other.grad, x.grad.tolist()) == ([6.0], None, [36.0])


def test_what_is_kept_is_what_all_hooks_made_of_a_gradient_also_later_ones():
    x = Tensor([2.0], requires_grad=True)
    y = x * 3
    y.retain_grad()
    later = y.register_hook(lambda g: g * 10)
    y.register_hook(lambda g: g + 1)
    (y * y).sum().backward(retain_graph=True)
    assert (y.grad.tolist(), x.grad.tolist()) == ([121.0], [363.0])
    later.remove()
    y.grad = None
    (y * y).sum().backward()
    assert (y.grad.tolist(), y.retains_grad) == ([13.0], True)


def test_inputs_that_nothing_depends_on():
    x, y = Tensor([2.0], requires_grad=True), Tensor([3.0], requires_grad=True)
    with pytest.raises(GradientError, match="allow_unused"):
        torpor.autograd.grad((x * x).sum(), [x, y])
    assert torpor.autograd.grad((x * x).sum(), [x, y], allow_unused=True)[1] is None
    seeds = [Tensor([1.0]), Tensor([2.0])]
    both = torpor.autograd.grad([x * x, x * 5], [x], seeds, None, False, True, True)
    assert both[0].tolist() == [14.0]


def test_modes_hold_for_a_block_a_function_or_from_here_on():
    x = Tensor([1.0], requires_grad=True)
    with torpor.inference_mode():
        assert not torpor.is_grad_enabled()
        with torpor.set_grad_enabled(True):
            assert (x * 2).requires_grad
    assert torpor.no_grad(lambda: (x * 2).requires_grad)() is False
    torpor.set_grad_enabled(False)
    assert not (x * 2).requires_grad
    torpor.set_grad_enabled(True)
    assert (x * 2).requires_grad


def test_a_second_backward_needs_the_graph_to_have_been_kept():
    """As PyTorch: an error only where the gradient needs values that are gone by then."""
    x = Tensor([1.0, 2.0], requires_grad=True)
    squares = (x * x).sum()
    squares.backward(retain_graph=True)
    squares.backward()
    assert x.grad.tolist() == [4.0, 8.0]
    with pytest.raises(GradientError, match="retain_graph=True"):
        squares.backward()
    assert x.grad.tolist() == [4.0, 8.0]
    (x * x).sum().backward()  # another graph
    linear = (x * 3 + 1).sum()
    linear.backward()
    linear.backward()
    assert x.grad.tolist() == [12.0, 18.0]
    for _ in range(2):
        (seeded := linear + 0).backward(Tensor(2.0))
        seeded.backward(Tensor(2.0))
    assert x.grad.tolist() == [36.0, 42.0]


def test_backward_for_some_inputs_only():
    x, y = (Tensor([value], requires_grad=True) for value in (2.0, 5.0))
    between = x * y
    (between * between).sum().backward(inputs=[x, between])
    assert (x.grad.tolist(), between.grad.tolist(), y.grad) == ([100.0], [20.0], None)
    torpor.autograd.backward([x * y, x + y], [Tensor([1.0]), Tensor([2.0])], inputs=y)
    assert (x.grad.tolist(), y.grad.tolist()) == ([100.0], [4.0])


def test_gradients_of_a_kept_graph_can_be_differentiated():
    x = Tensor([2.0], requires_grad=True)
    (x**3).sum().backward(create_graph=True)
    assert x.grad.requires_grad and x.grad.tolist() == [12.0]
    assert x.grad.sum().gradient(x)[0].tolist() == [12.0]
    (x**2).sum().backward()  # a constant beside it, as in PyTorch
    assert x.grad.requires_grad and x.grad.tolist() == [16.0]
    assert x.grad.sum().gradient(x)[0].tolist() == [12.0]


def test_hooks_after_gradients_were_added():
    x, seen = Tensor([2.0], requires_grad=True), []
    hook = x.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf.grad.item()))
    for _ in range(2):
        (x * x).sum().backward()
    hook.remove()
    (x * x).sum().backward()
    assert seen == [4.0, 8.0]
    with pytest.raises(GradientError, match="leaves"):
        (x * x).register_post_accumulate_grad_hook(print)


def test_gradients_of_functions_ask_for_no_more_gradients():
    """Unless something outside that they depend on does."""
    x = Tensor([1.0, 2.0])
    value, slope = torpor.value_and_grad(lambda x: (x * x).sum())(x)
    assert not value.requires_grad and not slope.requires_grad and slope.tolist() == [2.0, 4.0]
    w = Tensor([3.0, 4.0], requires_grad=True)
    outside = torpor.grad(lambda x: (x * x * w).sum())(x)
    assert outside.requires_grad and outside.sum().gradient(w)[0].tolist() == [2.0, 4.0]
    assert torpor.grad(lambda w: (w * w).sum())(w).requires_grad
    twice = torpor.grad(lambda x: torpor.grad(lambda x: (x**3).sum())(x).sum())(x)
    assert twice.tolist() == [6.0, 12.0] and not twice.requires_grad


def test_an_anomaly_names_the_line_whose_gradient_is_not_a_number():
    x = Tensor([0.0, 4.0], requires_grad=True)
    kept = Tensor([0.0, 1.0])
    with torpor.autograd.detect_anomaly():
        root = x.sqrt()
        result = (root * kept).sum() + (x * x).sum()
        with pytest.raises(GradientError, match=r"test_autograd.py:\d+: x.sqrt\(\)"):
            result.backward()
        assert x.grad is None
        (x * x).sum().backward()
    assert x.grad.tolist() == [0.0, 8.0]
    with torpor.autograd.set_detect_anomaly(False):
        assert (x.sqrt() * kept).sum().gradient(x)[0].isnan().tolist() == [True, False]


def test_gradients_are_constants_without_create_graph():
    """A step by them, as in the first order of MAML, has the gradient of what it starts from."""
    x = Tensor([1.0, 2.0], requires_grad=True)
    (slope,) = torpor.autograd.grad((x**3).sum(), x)
    assert not slope.requires_grad
    ((x - slope) ** 2).sum().backward()
    assert x.grad.tolist() == [2 * (1 - 3), 2 * (2 - 12)]
    (slope,) = torpor.autograd.grad((x**3).sum(), x, create_graph=True)
    (again,) = torpor.autograd.grad(slope.sum(), x)
    assert again.tolist() == [6, 12] and slope.requires_grad and not again.requires_grad


def test_gradients_of_many_seeds_at_once():
    x, y = (Tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    seeds = Tensor.eye(2)
    found, none = torpor.autograd.grad(
        x**3, (x, y), seeds, create_graph=True, allow_unused=True, is_grads_batched=True
    )
    assert found.tolist() == [[3, 0], [0, 12]] and none is None
    assert found.sum().gradient(x)[0].tolist() == [6, 12]
    first, second = torpor.autograd.grad(
        (x * y, x.sum()), (x, y), (seeds, Tensor([1.0, 10.0])), is_grads_batched=True
    )
    assert first.tolist() == [[2, 1], [10, 12]] and second.tolist() == [[1, 0], [0, 2]]


NOTHING = Tensor([]).cast("int64")
FLAT = {
    "gather": lambda x: x.gather(0, NOTHING),
    "put": lambda x: Tensor.ones(2).put(NOTHING, x[:0]),
    "index_add": lambda x: Tensor.ones(2).index_add(0, NOTHING, x[:0]),
    "matrix_power": lambda x: torpor.linalg.matrix_power(x.expand(2, 2), 0),
    "slice_scatter": lambda x: x.slice_scatter(Tensor.ones(2)),
    "copysign": lambda x: Tensor.ones(2).copysign(x),
    "fill": lambda x: torpor.fill(x, 1.0),
}


@pytest.mark.parametrize("name", FLAT)
def test_what_depends_on_a_tensor_by_name_alone_has_the_gradient_0(name):
    x = Tensor([1.0, 2.0], requires_grad=True)
    FLAT[name](x).sum().backward()
    assert x.grad.tolist() == [0, 0]


def test_a_hook_after_accumulation_may_take_the_step():
    x = Tensor([1.0, 2.0], requires_grad=True)
    x.register_post_accumulate_grad_hook(lambda leaf: leaf.sub_(leaf.grad))
    (x * 3).sum().backward()
    assert x.tolist() == [-2, -1]


def test_a_gradient_is_kept_as_all_hooks_leave_it():
    y = Tensor([3.0, 1.0], requires_grad=True) * 2  # of a leaf that nobody holds
    first = y.register_hook(lambda gradient: gradient * 10)
    y.retain_grad()
    y.register_hook(lambda gradient: gradient + 1)
    (y * 3).sum().backward(retain_graph=True)
    assert y.grad.tolist() == [31.0, 31.0]
    first.remove()
    y.grad = None
    (y * 3).sum().backward()
    assert y.grad.tolist() == [4.0, 4.0]


def test_a_leaf_that_is_frozen_and_let_go_is_the_leaf_that_it_was():
    x = Tensor([1.0, 2.0], requires_grad=True)
    before = (x * x).sum()
    x.requires_grad = False
    assert not (x * 3).requires_grad
    copied = copy.deepcopy(x)
    x += 1
    x.requires_grad = True
    (x * 5).sum().backward()
    before.backward()
    assert x.grad.tolist() == [7.0, 9.0]
    copied.requires_grad = True
    (copied * 2).sum().backward()
    assert (copied.grad.tolist(), x.grad.tolist()) == ([2.0, 2.0], [7.0, 9.0])


def test_freezing_and_letting_go_in_a_loop_leaves_graphs_as_they_are():
    x, lengths = Tensor([1.0, 2.0], requires_grad=True), set()
    for _ in range(4):
        x.requires_grad = False
        assert (x * 3).sum().item() == 9
        x.requires_grad = True
        lengths.add(len((x * x)._storage.base.toposort()))
    assert len(lengths) == 1


def test_gradients_of_one_tensor_again_need_the_graph_to_have_been_kept():
    x = Tensor([3.0], requires_grad=True)
    y = (x * x).sum()
    assert torpor.autograd.grad(y, x, retain_graph=True)[0].tolist() == [6.0]
    assert torpor.autograd.grad(y, x)[0].tolist() == [6.0]
    for again in (lambda: torpor.autograd.grad(y, x), y.backward):
        with pytest.raises(GradientError, match="retain_graph=True"):
            again()
    z = (x * x).sum()
    torpor.autograd.grad(z, x, create_graph=True)
    assert torpor.autograd.grad(z, x)[0].tolist() == [6.0]


def test_backward_needs_inputs_where_they_are_given():
    x = Tensor([3.0], requires_grad=True)
    with pytest.raises(GradientError, match="one tensor or more"):
        (x * x).backward(inputs=[])


def test_a_generator_is_in_the_mode_only_while_it_runs():
    seen = []

    @torpor.no_grad()
    def numbers():
        try:
            sent = yield torpor.is_grad_enabled()
            seen.append((sent, torpor.is_grad_enabled()))
            try:
                yield 2
            except KeyError:
                seen.append(torpor.is_grad_enabled())
            yield 3
            return "end"
        finally:
            seen.append(torpor.is_grad_enabled())

    def whole():
        seen.append((yield from numbers()))

    generator = whole()
    assert next(generator) is False
    assert torpor.is_grad_enabled()
    assert generator.send("sent") == 2
    assert generator.throw(KeyError) == 3
    assert list(generator) == []
    assert seen == [("sent", False), False, False, "end"]
    closed = numbers()
    next(closed)
    closed.close()
    assert seen[-1] is False
    assert torpor.is_grad_enabled()


@pytest.mark.parametrize("keeps", [False, True])
def test_hooks_are_called_for_what_was_computed_in_passes_before(keeps):
    weight = Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    x, seen = Tensor([[1.0, 1.0]]), []
    for _ in range(3):  # each pass goes on from what the one before left, so its graph is called
        x.requires_grad = True
        out = (x @ weight).relu()
        out.sum().backward()
        x = (x + x.grad.data.sign()).detach()
        assert (x.sum().item(), len(out.tolist())) != (0.0, 0)
    hidden = x @ weight
    hidden.retain_grad() if keeps else hidden.register_hook(lambda g: seen.append(g.tolist()))
    hidden.relu()[0, 1].backward()
    assert (hidden.grad.tolist() if keeps else seen[0]) == [[0.0, 1.0]]


def test_a_kept_gradient_is_added_to_in_place_as_that_of_a_leaf():
    x = Tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    y.retain_grad()
    (y * y).sum().backward()
    held = y.grad
    (y * 3).sum().backward()
    assert y.grad is held
    assert held.tolist() == [7.0, 11.0]


def test_hooks_of_tensors_end_with_a_block():
    def run(library):
        x = library.tensor([1.0, 2.0], requires_grad=True)
        with x.register_hook(lambda gradient: gradient * 10):
            (x * x).sum().backward()
        (x * x).sum().backward()
        return x.grad.tolist()

    assert run(torpor) == [22.0, 44.0]
    assert run(pytest.importorskip("torch")) == [22.0, 44.0]
