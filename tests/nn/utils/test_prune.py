"""Pruned tensors: which elements go, what is left in the state, and again."""

import numpy as np
import pytest

import torpor
from torpor import Tensor, nn
from torpor.base.errors import ShapeError, ValueRangeError
from torpor.nn.utils import prune

WEIGHT = np.float32([[1.0, -5.0, 2.0], [-3.0, 4.0, -6.0]])


def layer():
    made = nn.Linear(3, 2)
    made.load_state_dict({"weight": Tensor(WEIGHT), "bias": Tensor([0.0, 0.0])})
    return made


def test_the_least_go_and_the_rest_is_trained():
    one = prune.l1_unstructured(layer(), "weight", 2)
    assert one.weight.tolist() == [[0, -5, 0], [-3, 4, -6]] and prune.is_pruned(one)
    assert sorted(one.state_dict()) == ["bias", "weight_mask", "weight_orig"]
    assert [name for name, _ in one.named_parameters()] == ["bias", "weight_orig"]
    one(Tensor([[1.0, 1.0, 1.0]])).sum().backward()
    assert one.weight_orig.grad.tolist() == [[0, 1, 0], [1, 1, 1]]
    optimizer = torpor.optim.SGD(one.parameters(), lr=1.0)
    optimizer.step()
    assert one.weight.tolist() == [[0, -6, 0], [-4, 3, -7]]
    assert prune.remove(one, "weight") is one and not prune.is_pruned(one)
    assert isinstance(one.weight, nn.Parameter) and sorted(one.state_dict()) == ["bias", "weight"]
    with pytest.raises(ValueRangeError, match="weight of Linear is not pruned"):
        prune.remove(one, "weight")


def test_again_is_about_what_is_left():
    one = prune.l1_unstructured(layer(), "weight", 0.5)  # 3 of 6, then 2 of 3
    assert np.count_nonzero(one.weight.numpy()) == 3
    prune.l1_unstructured(one, "weight", 0.5)
    assert one.weight.tolist() == [[0, 0, 0], [0, 0, -6]]
    with pytest.raises(ValueRangeError, match="amount is 2, of 1"):
        prune.l1_unstructured(one, "weight", 2)
    assert one.weight.tolist() == [[0, 0, 0], [0, 0, -6]]
    rows = prune.ln_structured(layer(), "weight", 1, n=2, dim=0)
    assert rows.weight.tolist() == [[0, 0, 0], [-3, 4, -6]]
    columns = prune.ln_structured(layer(), "weight", 1, n=1, dim=1)
    prune.ln_structured(columns, "weight", 1, n=1, dim=1)
    assert columns.weight.tolist() == [[0, -5, 0], [0, 4, 0]]


def test_by_chance_by_scores_by_masks_and_together():
    torpor.manual_seed(0)
    assert np.count_nonzero(prune.random_unstructured(layer(), "weight", 4).weight.numpy()) == 2
    some = prune.random_structured(layer(), "weight", 1, dim=1).weight.numpy()
    assert sorted(np.count_nonzero(some, axis=0)) == [0, 2, 2]
    scored = prune.l1_unstructured(layer(), "weight", 5, Tensor([[9.0, 1, 1], [1, 1, 1]]))
    assert scored.weight.tolist() == [[1, 0, 0], [0, 0, 0]]
    masked = prune.custom_from_mask(layer(), "weight", Tensor([[1, 0, 1], [0, 1, 0]]))
    assert masked.weight.tolist() == [[1, 0, 2], [0, 4, 0]]
    assert prune.identity(layer(), "weight").weight.tolist() == WEIGHT.tolist()
    model = nn.Sequential(layer(), nn.Linear(2, 1))
    model[1].load_state_dict({"weight": Tensor([[0.5, 10.0]]), "bias": Tensor([0.0])})
    pairs = [(model[0], "weight"), (model[1], "weight")]
    prune.global_unstructured(pairs, prune.L1Unstructured, amount=3)
    assert model[0].weight.tolist() == [[0, -5, 0], [-3, 4, -6]]
    assert model[1].weight.tolist() == [[0, 10]]


def test_a_way_of_the_users_and_errors():
    class Every(prune.BasePruningMethod):
        """Keeps every other element."""

        def compute_mask(self, t, default_mask):
            return default_mask * Tensor((np.arange(t.numel()) % 2).reshape(t.shape))

    one = layer()
    assert isinstance(Every.apply(one, "weight"), Every)
    assert one.weight.tolist() == [[0, -5, 0], [-3, 0, -6]]
    assert Every().prune(Tensor([1.0, 2.0])).tolist() == [0, 2]
    for amount in (-1, 1.5, True):
        with pytest.raises(ValueRangeError, match="amount"):
            prune.l1_unstructured(layer(), "weight", amount)
    with pytest.raises(ShapeError, match="two axes"):
        prune.ln_structured(layer(), "bias", 1, n=2, dim=0)
    with pytest.raises(ShapeError, match="scores of shape"):
        prune.l1_unstructured(layer(), "weight", 1, Tensor([1.0]))
    with pytest.raises(AttributeError, match="no tensor 'wight'"):
        prune.identity(layer(), "wight")
