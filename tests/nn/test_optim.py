"""What a step computes besides the update."""

import numpy as np

from torpor import Tensor, nn
from torpor.tensor.differentiate import differentiated


def test_a_step_computes_the_loss_along_with_the_update():
    layer = nn.Linear(8, 4)
    optimiser = nn.optim.SGD(layer.parameters(), lr=0.1)
    x = Tensor.ones(16, 8).realize()
    for _ in range(2):
        optimiser.zero_grad()
        loss = layer(x).square().mean()
        before = (x.numpy() @ layer.weight.numpy().T + layer.bias.numpy()) ** 2
        loss.backward()
        optimiser.step()
        assert not loss.schedule(), "its value is there already"
        np.testing.assert_allclose(loss.item(), before.mean(), rtol=1e-5)


def test_losses_that_nobody_holds_are_not_computed():
    weight = Tensor([1.0], requires_grad=True)
    kept = (weight * 2).sum().backward()
    (weight * 3).sum().backward()
    (found,) = differentiated()
    assert found is kept
    assert not differentiated()
