"""`reset_parameters`: tensors begin again, and a subclass says how they begin."""

import copy
import pickle

import numpy as np
import pytest

import torpor
from torpor import Tensor, nn

LAYERS = {
    "Linear": (4, 3),
    "Bilinear": (4, 3, 2),
    "PReLU": (3,),
    "Embedding": (4, 3, 1),
    "EmbeddingBag": (4, 3),
    "Conv2d": (4, 6, 3),
    "ConvTranspose1d": (4, 6, 3),
    "LayerNorm": (3,),
    "RMSNorm": (3,),
    "GroupNorm": (2, 4),
    "BatchNorm1d": (3,),
    "SyncBatchNorm": (3,),
    "InstanceNorm1d": (3, 1e-5, 0.1, True, True),
    "LSTM": (4, 3),
    "GRUCell": (4, 3),
    "AdaptiveLogSoftmaxWithLoss": (32, 6, [2, 4]),
}


@pytest.mark.parametrize(("name", "given"), LAYERS.items())
def test_tensors_begin_again_where_pytorchs_do(name, given):
    layer = getattr(nn, name)(*given)
    assert hasattr(getattr(pytest.importorskip("torch").nn, name), "reset_parameters")
    tensors = layer.state_dict(keep_vars=True)
    with torpor.no_grad():
        for one in tensors.values():
            one.fill_(77)
    layer.reset_parameters()
    torpor.manual_seed(0)
    other = getattr(nn, name)(*given).state_dict(keep_vars=True)
    again = layer.state_dict(keep_vars=True)
    for key, one in tensors.items():
        assert again[key] is one
        assert one.requires_grad == other[key].requires_grad
        assert one.max().item() < 77
        if key != "weight" or "Embedding" not in name:  # normal, which has no bound
            bound = 1.01 * max(other[key].abs().max().item() * 4, 1e-9)
            assert one.abs().max().item() <= bound, key
        if not np.ptp(other[key].numpy()):  # ones and zeros
            assert one.tolist() == other[key].tolist()


def test_copies_pickles_and_layers_without_memory_begin_again():
    torpor.manual_seed(0)
    layer = nn.Linear(2, 2, bias=False, dtype=torpor.float64)
    for one in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        one.reset_parameters()
        values = one.weight.tolist()
        assert values != layer.weight.tolist()
        assert values != np.float32(values).tolist()  # drawn as float64
    with torpor.device("NULL"):
        model = nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2))
    model.to_empty(device="CPU").apply(
        lambda one: one.reset_parameters() if hasattr(one, "reset_parameters") else None
    )
    assert model[1].weight.tolist() == [1.0, 1.0]
    assert 0 < model[0].weight.abs().max().item() <= 0.5**0.5
    pretrained = nn.Embedding.from_pretrained(Tensor.full((2, 2), 77.0))
    pretrained.reset_parameters()
    assert pretrained.weight.max().item() < 77


@pytest.mark.parametrize("name", ["Linear", "LSTM", "SyncBatchNorm", "Embedding", "Conv1d"])
def test_a_subclass_says_how_tensors_begin(name):
    def calls(library):
        seen = []

        class Own(getattr(library.nn, name)):
            def __init__(self, *given):
                super().__init__(*given)
                seen.append("made")

            def reset_parameters(self):
                seen.append(sorted(name for name, _ in self.named_parameters()))
                super().reset_parameters()
                for one in self.parameters():
                    library.nn.init.constant_(one, 2.0)

        made = Own(*LAYERS.get(name, (4, 6, 3)))
        return seen, [one.min().item() for one in made.parameters()]

    found, expected = calls(torpor), calls(pytest.importorskip("torch"))
    assert found == expected
    assert set(found[1]) == {2.0}


def test_recurrent_weights_lie_as_they_like():
    assert nn.LSTM(2, 3).flatten_parameters() is None
