"""LBFGS: it finds minima, and its state goes on from where it was kept, in either library."""

import numpy as np
import pytest

import torpor
from torpor import Tensor, nn
from torpor.base.errors import TorporError


def rosenbrock(x):
    return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2


def test_lbfgs_finds_the_valley():
    x = Tensor(np.array([-1.2, 1.0]), requires_grad=True)
    optimiser = nn.optim.LBFGS([x], line_search_fn="strong_wolfe")

    def closure():
        optimiser.zero_grad()
        loss = rosenbrock(x)
        loss.backward()
        return loss

    losses = [optimiser.step(closure).item() for _ in range(3)]
    assert losses[0] == pytest.approx(24.2) and losses[-1] < 1e-8
    np.testing.assert_allclose(x.numpy(), [1, 1], atol=1e-4)
    with pytest.raises(TorporError, match="closure"):
        optimiser.step()


def in_both(value, library):
    """A state of one library as one of the other."""
    if isinstance(value, dict):
        return {name: in_both(one, library) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [in_both(one, library) for one in value]
    return library.tensor(value.detach().numpy()) if hasattr(value, "detach") else value


@pytest.mark.parametrize(
    ("ways", "search"),
    [
        (("here", "here"), None),
        (("here", "here"), "strong_wolfe"),
        (("here", "there"), None),
        (("there", "here"), None),
    ],
)
def test_lbfgs_goes_on_from_its_state(ways, search, tmp_path):
    torch = pytest.importorskip("torch") if "there" in ways else None
    libraries = [torpor if way == "here" else torch for way in ways]

    def begun(library, numbers):
        x = library.tensor(numbers, requires_grad=True)
        made = library.optim.LBFGS([x], lr=0.1, max_iter=4, line_search_fn=search)

        def closure():
            made.zero_grad()
            loss = (rosenbrock(x) * 0.1 + (x * x).sum()) ** 2
            loss.backward()
            return loss

        return x, made, lambda: made.step(closure).item()

    before, kept, step = begun(libraries[0], np.array([-1.2, 1.0]))
    for _ in range(3):
        step()
    state = kept.state_dict()
    if torch is None:
        torpor.save(state, tmp_path / "state.pt")
        state = torpor.load(tmp_path / "state.pt")
    _, resumed, go_on = begun(libraries[1], before.detach().numpy().copy())
    resumed.load_state_dict(in_both(state, libraries[1]))
    expected, found = [step() for _ in range(3)], [go_on() for _ in range(3)]
    if torch is None:
        assert found == expected
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_lbfgs_refuses_the_state_of_other_parameters():
    x, y = Tensor([1.0, 2.0], requires_grad=True), Tensor([1.0] * 3, requires_grad=True)
    one, other = nn.optim.LBFGS([x]), nn.optim.LBFGS([y])
    one.step(lambda: [one.zero_grad(), loss := (x * x).sum(), loss.backward()][1])
    with pytest.raises(TorporError, match="2 numbers"):
        other.load_state_dict(one.state_dict())
