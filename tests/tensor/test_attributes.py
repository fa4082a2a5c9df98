"""Attributes that programs give to tensors, as they may in PyTorch."""

import copy
import pickle

import pytest

import torpor
from torpor import Tensor, nn


@pytest.mark.parametrize("values", [[1.0, 2.0], [1j]])
def test_a_tensor_keeps_what_it_is_given_in_copies_and_files(values):
    x = Tensor(values)
    x.tags = ["a"]
    for made in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert made.tags == ["a"]
    assert copy.copy(x).tags is x.tags
    assert copy.deepcopy(x).tags is not x.tags
    assert not hasattr(x * 1, "tags")
    with pytest.raises(AttributeError, match="tag"):
        _ = x.tag


def test_attributes_of_parameters_are_no_part_of_a_module():
    module = nn.Linear(2, 2)
    module.weight.decays = False
    module.weight.other = Tensor([1.0], requires_grad=True)
    assert list(module.state_dict()) == ["weight", "bias"]
    assert len(list(module.parameters())) == 2
    kept = [p for p in module.parameters() if getattr(p, "decays", True)]
    assert len(kept) == 1
    assert copy.deepcopy(module).weight.decays is False


def test_a_jitted_function_sees_other_attributes_of_a_tensor_outside():
    p = Tensor([1.0])
    p.factor = 2

    @torpor.jit
    def scaled(x):
        return (x * 10 if hasattr(p, "late") else x) * p.factor

    for factor in (2, 2, 2, 3, 2):
        p.factor = factor
        assert scaled(Tensor([1.0])).tolist() == [factor]
    p.late = True
    assert scaled(Tensor([1.0])).tolist() == [20.0]


def test_a_jitted_function_sees_attributes_of_what_it_is_given_and_sets_those_of_what_it_gives():
    @torpor.jit
    def scaled(x):
        made = x * x.factor
        made.note, x.seen = "made", True
        return made

    for factor in (2, 2, 2, 3):
        x = Tensor([1.0, 2.0])[:1] if factor == 3 else Tensor([1.0])
        x.factor = factor
        made = scaled(x)
        assert (made.tolist(), made.note) == ([factor], "made")


def test_attributes_that_a_jitted_function_does_not_name_cost_it_nothing():
    @torpor.jit
    def doubled(x):
        return x * 2

    for tag in range(4):
        x = Tensor([1.0])
        x.tag = tag
        assert doubled(x).tolist() == [2.0]
    assert "replayed 3 times" in torpor.explain(doubled)


def _by_default(x):
    return x * getattr(x, "factor", 3)


def _by_flag(x):
    return x * (2 if hasattr(x, "factor") else 3)


def _by_all(x):
    return x * (2 if "factor" in vars(x) else 3)


@pytest.mark.parametrize("function", [_by_default, _by_flag, _by_all])
@pytest.mark.parametrize("grad", [False, True])
def test_a_jitted_function_sees_attributes_that_come_after_its_trace(function, grad):
    scaled = torpor.jit(function)
    bare, given = Tensor([1.0], requires_grad=grad), Tensor([1.0], requires_grad=grad)
    given.factor = 2
    for _ in range(8):  # enough to be replayed without Python
        assert scaled(bare).tolist() == [3.0]
    assert scaled(given).tolist() == [2.0]
    assert scaled(bare).tolist() == [3.0]
    bare.factor = 2
    assert scaled(bare).tolist() == [2.0]
    del bare.factor
    assert scaled(bare).tolist() == [3.0]
