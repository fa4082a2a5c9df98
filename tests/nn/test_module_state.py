"""Hooks around a module's state, and state beside tensors: what PyTorch's modules do."""

import copy
import io

import numpy as np
import pytest

import torpor
from torpor import Tensor, nn
from torpor.base.errors import StateError


def net(library):
    """Two layers, the inner one within a module of its own that counts."""

    class Counted(library.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = library.nn.Linear(1, 1, bias=False)
            self.count = 3

        def get_extra_state(self):
            return {"count": self.count}

        def set_extra_state(self, state):
            self.count = state["count"]

    return library.nn.Sequential(Counted(), library.nn.Linear(1, 1, bias=False))


def seen_by_hooks(library):
    model, seen = net(library), []
    for name, one in model.named_modules():

        def saving(module, prefix, keep_vars, name=name):
            seen.append(("saving", name, prefix, keep_vars))

        def saved(module, state, prefix, metadata, name=name):
            seen.append(("saved", name, prefix, len(state) if prefix != "0.layer." else None))

        def loading(module, state, prefix, metadata, strict, missing, extra, errors, name=name):
            seen.append(("loading", name, prefix, strict, missing, extra, errors))

        def loaded(module, misfit, name=name):
            seen.append(("loaded", name, list(misfit.missing_keys), list(misfit.unexpected_keys)))

        one.register_state_dict_pre_hook(saving)
        one.register_state_dict_post_hook(saved)
        one.register_load_state_dict_pre_hook(loading)
        one.register_load_state_dict_post_hook(loaded)
    state = model.state_dict(keep_vars=True)
    model[0].count = 4
    model.load_state_dict(state)
    return sorted(map(str, seen)), [one[:2] for one in seen], sorted(state), model[0].count


def test_hooks_see_what_those_of_pytorch_see():
    found = seen_by_hooks(torpor)
    expected = seen_by_hooks(pytest.importorskip("torch"))
    assert found[0] != []
    lengths = [line for line in expected[0] if "'saved', '0', " not in line]  # before or after `1`
    assert [line for line in found[0] if "'saved', '0', " not in line] == lengths
    assert found[2:] == expected[2:] == (sorted(found[2]), 3)
    for order in (found[1], expected[1]):
        places = {one: place for place, one in enumerate(order)}
        assert places["saving", ""] < places["saving", "0"] < places["saving", "0.layer"]
        assert places["saved", "0.layer"] < places["saved", "0"] < places["saved", ""]
        assert places["loading", ""] < places["loading", "0"] < places["loading", "0.layer"]
        assert places["loaded", "0.layer"] < places["loaded", "0"] < places["loaded", ""]


def test_state_beside_tensors_goes_through_a_file():
    model, file = net(torpor), io.BytesIO()
    model[0].count = 7
    torpor.save(model.state_dict(prefix="model."), file)
    file.seek(0)
    state = torpor.load(file)
    assert state["model.0._extra_state"] == {"count": 7}
    other = net(torpor)
    found = other.load_state_dict({name[6:]: value for name, value in state.items()})
    assert (other[0].count, *found) == (7, [], [])
    assert other[1].weight.tolist() == model[1].weight.tolist()
    weights = {name: value for name, value in other.state_dict().items() if "extra" not in name}
    with pytest.raises(StateError, match=r"Missing key\(s\): '0\._extra_state'"):
        other.load_state_dict(weights)
    assert other.load_state_dict(weights, strict=False).missing_keys == ["0._extra_state"]
    with pytest.raises(StateError, match=r"Unexpected key\(s\): '_extra_state'"):
        nn.Linear(1, 1, bias=False).load_state_dict({"weight": [[1.0]], "_extra_state": 1})
    with pytest.raises(NotImplementedError, match="no state beside"):
        nn.Linear(1, 1).get_extra_state()


def test_a_hook_renames_what_an_older_model_saved():
    model = nn.Sequential(nn.Linear(1, 1, bias=False))

    def rename(module, state, prefix, *_):
        state[prefix + "weight"] = state.pop(prefix + "kernel")

    removable = model[0].register_load_state_dict_pre_hook(rename)
    old = {"0.kernel": Tensor([[5.0]])}
    model.load_state_dict(old)
    assert (model[0].weight.tolist(), list(old)) == ([[5.0]], ["0.kernel"])
    removable.remove()
    with pytest.raises(StateError, match="kernel"):
        model.load_state_dict(old)
    model[0]._register_load_state_dict_pre_hook(lambda *given: rename(model[0], *given))
    assert not any(model.load_state_dict(old))


@pytest.mark.parametrize("strict", [True, False])
def test_hooks_say_what_does_not_fit(strict):
    model = nn.Linear(1, 1)
    state = {"weight": [[2.0]], "more": [1.0]}
    with model.register_load_state_dict_post_hook(lambda one, keys: [x.clear() for x in keys]):
        assert not any(model.load_state_dict(state, strict))
        assert model.weight.item() == 2.0
    model.register_load_state_dict_pre_hook(lambda *given: given[-1].append("too old"))
    with pytest.raises(StateError, match="too old"):
        model.load_state_dict({"weight": [[3.0]], "bias": [0.0]}, strict)
    assert model.weight.item() == 2.0  # nothing has changed


def test_a_hook_changes_what_is_saved():
    model = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1))
    model[1].register_state_dict_post_hook(lambda one, state, prefix, _: state.pop(f"{prefix}bias"))
    assert list(model.state_dict()) == ["0.weight", "0.bias", "1.weight"]
    assert list(model.state_dict(prefix="a.")) == ["a.0.weight", "a.0.bias", "a.1.weight"]


def test_modules_are_made_without_memory_and_given_it():
    with torpor.device("NULL"):
        model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    weight = model[0].weight
    assert weight.is_meta
    assert model.to_empty(device="CPU", recurse=False)[0].weight.is_meta
    assert model.to_empty(device="CPU") is model
    assert (model[0].weight is weight, weight.device, weight.requires_grad) == (True, "CPU", True)
    assert {str(one.device) for one in model.buffers()} == {"CPU"}
    values = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).state_dict()
    model.load_state_dict(values)
    assert weight.tolist() == values["0.weight"].tolist()


def own_parts(library):
    """Names in the state of a module of others that say their part of it."""

    class Own(library.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = library.nn.Linear(1, 1, bias=False)

        def state_dict(self, *arguments, **options):
            found = super().state_dict(*arguments, **options)
            found[f"{options.get('prefix', '')}more"] = library.zeros(1)
            return found

    class Nothing(library.nn.Module):
        def state_dict(self, destination=None, prefix="", keep_vars=False):
            destination[f"{prefix}alone"] = library.zeros(1)
            return destination

    class Around(Own):
        def __init__(self):
            super().__init__()
            self.inner = Own()

    model = library.nn.Sequential(Around(), Nothing(), library.nn.Linear(1, 1, bias=False))
    return sorted(model.state_dict()), sorted(model[0].state_dict(prefix="p."))


def test_modules_inside_are_asked_for_their_own_part():
    whole, part = own_parts(torpor)
    known = ["inner.layer.weight", "inner.more", "layer.weight", "more"]
    assert part == [f"p.{name}" for name in known]
    assert whole == [*(f"0.{name}" for name in known), "1.alone", "2.weight"]


def test_pytorch_asks_them_alike():
    assert own_parts(torpor) == own_parts(pytest.importorskip("torch"))


def test_a_state_is_views_that_are_not_trained():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight = model[0].weight
    state = model.state_dict()
    assert not any(tensor.requires_grad for tensor in state.values())
    assert state["0.weight"] is state["1.weight"]
    state["0.weight"].fill_(3)
    assert model[1].weight.tolist() == [[3, 3], [3, 3]] and model[1].weight.requires_grad
    model(Tensor.ones(1, 2)).sum().backward()
    assert model.state_dict(keep_vars=True)["0.weight"] is model[0].weight


def test_states_are_averaged_as_models_of_several_clients_are():
    clients = [nn.Linear(2, 1) for _ in range(3)]
    states = [copy.deepcopy(client.state_dict()) for client in clients]
    mean = copy.deepcopy(states[0])
    for name in mean:
        for state in states[1:]:
            mean[name] += state[name]
        mean[name] = mean[name] / len(states)
    whole = nn.Linear(2, 1)
    whole.load_state_dict(mean)
    expected = sum(client.weight.detach().numpy() for client in clients) / 3
    np.testing.assert_allclose(whole.weight.detach().numpy(), expected, rtol=1e-6)
    assert clients[0].weight.tolist() == states[0]["weight"].tolist()


class Renamed(nn.Module):
    """A module that loads and saves under another name, and forgives a buffer, as in PyTorch."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(Tensor.zeros(1))
        self.register_buffer("seen", Tensor.zeros(1))
        self.inner = nn.Linear(1, 1)

    def _load_from_state_dict(self, state_dict, prefix, meta, strict, missing, unexpected, errors):
        if f"{prefix}old" in state_dict:
            state_dict[f"{prefix}scale"] = state_dict.pop(f"{prefix}old")
        super()._load_from_state_dict(state_dict, prefix, meta, strict, missing, unexpected, errors)
        if f"{prefix}seen" in missing:
            missing.remove(f"{prefix}seen")
        if f"{prefix}wrong" in state_dict:
            errors.append("a wrong name")

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[f"{prefix}old"] = destination.pop(f"{prefix}scale")
        del destination[f"{prefix}seen"]


def test_modules_that_say_how_they_are_loaded_and_saved():
    model = nn.Sequential(Renamed(), nn.Linear(1, 1))
    given = {"0.old": Tensor([3.0]), "0.inner.weight": Tensor([[2.0]])}
    given |= {"0.inner.bias": Tensor([1.0]), **model[1].state_dict(prefix="1.")}
    model.load_state_dict(given)
    assert (model[0].scale.item(), model[0].inner.weight.item()) == (3.0, 2.0)
    assert "0.old" in given, "the dict that is given stays as it is"
    saved = model.state_dict()
    assert set(saved) == set(given) and saved["0.old"].tolist() == [3.0]
    with pytest.raises(StateError, match="a wrong name"):
        model.load_state_dict(given | {"0.wrong": Tensor([1.0])}, strict=False)
    with pytest.raises(StateError, match=r"Missing key\(s\): '0.scale'"):
        model.load_state_dict({n: x for n, x in given.items() if n != "0.old"})
    found = model.load_state_dict({"0.old": Tensor([4.0]), "2.x": Tensor(1.0)}, strict=False)
    assert found.unexpected_keys == ["2.x"] and len(found.missing_keys) == 4
    assert model[0].scale.item() == 4.0
