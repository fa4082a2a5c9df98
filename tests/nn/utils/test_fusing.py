"""A layer and its batch norm as one layer."""

import numpy as np
import pytest

import torpor
from torpor import Tensor, nn


@pytest.mark.parametrize(
    ("layer", "norm", "shape"),
    [
        (lambda: nn.Conv2d(3, 4, 3), nn.BatchNorm2d, (2, 3, 5, 5)),
        (lambda: nn.ConvTranspose1d(3, 4, 3, bias=False), nn.BatchNorm1d, (2, 3, 5)),
        (lambda: nn.Linear(3, 4), nn.BatchNorm1d, (2, 3)),
    ],
)
def test_fused_layers_compute_the_same(layer, norm, shape):
    torpor.manual_seed(0)
    x, first, second = Tensor.randn(*shape), layer(), norm(4)
    with torpor.no_grad():
        for one in (*second.parameters(), second.running_mean, second.running_var):
            one.assign(Tensor.rand(4) + 0.5)
    fuse = nn.utils.fuse_linear_bn_eval if shape == (2, 3) else nn.utils.fuse_conv_bn_eval
    with pytest.raises(ValueError, match="call eval"):
        fuse(first, second)
    first.eval(), second.eval()
    made = fuse(first, second)
    np.testing.assert_allclose(made(x).numpy(), second(first(x)).numpy(), rtol=1e-4, atol=1e-5)
