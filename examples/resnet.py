"""A residual network reads digits; stopped and resumed, it goes on as if nothing had been.

Images are shifted and turned on the way in, the rate follows a schedule, and after every epoch all
that the run depends on is saved. `--resume run.pt` goes on from there, to the same bits. A minute.
"""

import argparse

import matplotlib.pyplot as plt

import torpor
from torpor import Tensor, jit, manual_seed, nn, no_grad
from torpor.nn.data import DataLoader, TensorDataset, load_digits, transforms

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", type=int, default=6, help="of the whole run")
parser.add_argument("--stop", type=int, default=100, help="after this epoch")
parser.add_argument("--images", type=int, default=8000)
parser.add_argument("--width", type=int, default=8)
parser.add_argument("--save", default="run.pt")
parser.add_argument("--resume", help="a file that --save has left behind")
parser.add_argument("--out", default="resnet.png")
options = parser.parse_args()


class Residual(nn.Module):
    """Two convolutions beside a way around them."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        self.first = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        same = inputs == outputs and stride == 1
        self.around = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm1(self.first(x)).relu()
        return (self.norm2(self.second(y)) + self.around(x)).relu()


manual_seed(0)
images, labels, test_images, test_labels = (Tensor(array) for array in load_digits())
x, test_x = (pixels.unsqueeze(1).float() / 255 for pixels in (images, test_images))
data = TensorDataset(x[: options.images].realize(), labels[: options.images].long().realize())
loader = DataLoader(data, batch_size=100, shuffle=True, drop_last=True)
turned = transforms.RandomAffine(degrees=10, translate=(0.1, 0.1))
width = options.width
model = nn.Sequential(
    nn.Conv2d(1, width, 3, padding=1),
    Residual(width, width, 1),
    Residual(width, 2 * width, 2),
    Residual(2 * width, 4 * width, 2),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(4 * width, 10),
)
optimiser = nn.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
total = options.epochs * len(loader)
schedule = nn.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=0.2, total_steps=total)
history = {"loss": [], "rate": [], "accuracy": []}
parts = {"model": model, "optimiser": optimiser, "schedule": schedule}


@jit
def step(x: Tensor, y: Tensor) -> Tensor:
    optimiser.zero_grad()
    loss = model(turned(x)).cross_entropy(y)
    loss.backward()
    optimiser.step()
    return loss.detach()


@jit
def right(x: Tensor, y: Tensor) -> Tensor:
    with no_grad():
        return (model(x).argmax(1) == y).sum()


done = 0
if options.resume:
    saved = torpor.load(options.resume)
    for name, part in parts.items():
        part.load_state_dict(saved[name])
    torpor.set_rng_state(saved["random"])
    done, history = saved["epoch"], saved["history"]
for epoch in range(done, min(options.stop, options.epochs)):
    model.train()
    for batch, answers in loader:
        history["rate"].append(optimiser.param_groups[0]["lr"])
        history["loss"].append(step(batch, answers).item())
        schedule.step()
    model.eval()
    count = sum(right(*rows).item() for rows in zip(test_x.split(500), test_labels.split(500)))
    history["accuracy"].append(count / 2000)
    print(f"epoch {epoch + 1}: loss {history['loss'][-1]:.3f}, {count / 2000:.1%} read right")
    state = {name: part.state_dict() for name, part in parts.items()}
    random = torpor.get_rng_state()
    torpor.save({**state, "random": random, "epoch": epoch + 1, "history": history}, options.save)

figure, (left, after) = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
left.plot(history["loss"], linewidth=0.8)
left.set(xlabel="step", ylabel="loss", yscale="log")
after.plot(history["rate"])
after.set(xlabel="step", ylabel="rate")
figure.savefig(options.out)
