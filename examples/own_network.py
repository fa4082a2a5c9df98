"""A network of one's own, trained on the handwritten digits that come along; about 5 seconds."""

from torpor import Tensor, jit, nn, no_grad
from torpor.nn.data import load_digits


class Network(nn.Module):
    """Two layers: pixels [image, 784] to scores of the ten digits [image, 10]."""

    def __init__(self) -> None:
        self.hidden, self.out = nn.Linear(784, 128), nn.Linear(128, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.hidden(x).relu())


Tensor.manual_seed(0)
images, labels, test_images, test_labels = (Tensor(array) for array in load_digits())
x, test_x = (pixels.reshape(-1, 784).float() / 255 for pixels in (images, test_images))
network = Network()
optimiser = nn.optim.Adam(network.parameters(), lr=2e-3)


@jit  # what happens inside is traced once, then runs without Python between the kernels
def step(chosen: Tensor) -> Tensor:
    optimiser.zero_grad()
    loss = network(x[chosen]).cross_entropy(labels[chosen].long())
    loss.backward()
    optimiser.step()
    return loss.detach()


for epoch in range(6):
    order = Tensor.randperm(len(x)).reshape(-1, 100).realize()
    losses = [step(order[number]).item() for number in range(order.shape[0])]
    print(f"epoch {epoch + 1}: loss {sum(losses) / len(losses):.3f}")
with no_grad():
    right = network(test_x).argmax(1) == test_labels
print(f"{right.float().mean().item():.1%} of {len(test_x)} others are read right")
