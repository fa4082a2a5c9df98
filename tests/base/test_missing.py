"""Names that are not there: what is said, and that asking stays cheap and safe."""

import copy
import importlib
import pickle
import subprocess
import sys

import pytest

import torpor
from torpor import Tensor, nn


@pytest.mark.parametrize(
    ("place", "name", "text"),
    [
        (Tensor(1.0), "lstsq", r"Tensor has no 'lstsq'.*there is torpor\.linalg\.lstsq"),
        (Tensor(1.0), "astype", r"there is cast; .*docs/coming-from-pytorch\.md"),
        (Tensor(1.0), "expand_dims", "there is unsqueeze"),
        (torpor, "expand_dims", "there is unsqueeze"),
        (Tensor, "zeroes", r"Tensor has no 'zeroes'.*there is zeros"),
        (torpor, "argsrt", r"torpor has no 'argsrt'.*there is argsort"),
        (torpor, "Linear", r"there is torpor\.nn\.Linear"),
        (nn, "SGD", r"there is torpor\.nn\.optim\.SGD"),
        (nn, "BatchNorm4d", r"torpor\.nn has no 'BatchNorm4d'.*there is .*BatchNorm"),
        (torpor, "compile", r"there is jit"),
        (nn.functional, "gumble_softmax", r"nn\.functional has no .*there is .*gumbel_softmax"),
        (nn.functional, "exp", r"there is .*Tensor\.exp"),
        (nn.init, "exponential_", r"nn\.init has no 'exponential_'"),
        (nn.init, "ones", r"there is .*Tensor\.ones"),
        (nn.optim, "AdaMaxx", r"nn\.optim has no 'AdaMaxx'.*there is Adamax"),
        (Tensor, "cosine_similarity", r"nn\.functional\.cosine_similarity"),
        (Tensor(1.0), "resize_", "Tensor has no 'resize_'"),
        (Tensor(1.0), "set_", r"there is x\.data = y"),
        (torpor.autograd, "Variable", r"torpor\.autograd has no 'Variable'; there is Tensor"),
        (nn.Linear(1, 1), "compile", r"Module has no 'compile'; there is jit"),
        (nn.Linear(1, 1), "register_backward_hook", "there is register_full_backward_hook"),
        (torpor, "set_num_interop_threads", "there is set_num_threads"),
        (torpor.utils, "tensorboard", r"torpor\.utils has no 'tensorboard'"),
        (nn, "DataLoader", r"there is torpor\.nn\.data"),
    ],
)
def test_what_is_missing_says_so_and_what_there_is(place, name, text):
    assert not hasattr(place, name)
    assert getattr(place, name, 3) == 3
    with pytest.raises(AttributeError, match=text):
        getattr(place, name)
    with pytest.raises(AttributeError, match="PyTorch or NumPy"):
        getattr(place, name)


def test_modules_of_pytorch_that_are_elsewhere_are_named_when_they_are_imported():
    with pytest.raises(ModuleNotFoundError, match=r"'distributed'; there is shard"):
        importlib.import_module("torpor.distributed.rpc")
    assert importlib.import_module("torpor.utils.data").DataLoader is nn.data.DataLoader
    assert importlib.import_module("torpor.utils.checkpoint").checkpoint is torpor.checkpoint
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'torpor\.no_such'"):
        importlib.import_module("torpor.no_such")
    assert importlib.import_module("torpor.optim.lr_scheduler") is nn.optim.lr_scheduler
    assert importlib.import_module("torpor.nn.data.sampler").RandomSampler is nn.data.RandomSampler
    fusion = importlib.import_module("torpor.nn.utils.fusion")
    assert fusion.fuse_conv_bn_eval is nn.utils.fuse_conv_bn_eval


def test_python_says_which_attribute_was_meant():
    code = "from torpor import Tensor; Tensor([1.0]).shpe"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "Did you mean: 'shape'" in ran.stderr


def test_protocols_of_python_are_not_disturbed():
    x = Tensor([1.0, 2.0])
    for made in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert made.tolist() == [1.0, 2.0]
    for name in ("__no_such_protocol__", "_nothing"):
        assert not hasattr(x, name)
        assert not hasattr(torpor, name)
    with pytest.raises(AttributeError) as raised:
        _ = torpor.io
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


@pytest.mark.parametrize("name", ["io", "no_such_name"])
def test_rooms_that_are_not_built_are_not_there(name):
    assert not hasattr(torpor, name)


def test_every_name_that_is_listed_is_there():
    for place in (torpor, nn, nn.optim, nn.functional, Tensor([[1.0]]), Tensor):
        listed = [name for name in dir(place) if name != "imag"]  # an error for real tensors
        assert [name for name in listed if not hasattr(place, name)] == []
