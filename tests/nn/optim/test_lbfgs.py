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


# The losses of two steps from (-1.2, 1) on Rosenbrock's valley, as PyTorch 2.13 asks for them, and
# how many of them the first step takes.
CALLS = [
    ({"max_iter": 1}, 1, [24.2, 112.44806]),
    ({"max_iter": 6}, 6, [
        24.2, 112.44806, 18.773763, 91.47825, 6.4124425, 4.3236291, 3.9794984, 3.9731238, 3.9666169,
        3.9343715, 3.8486581, 2.781853,
    ]),
    ({"max_iter": 1, "line_search_fn": "strong_wolfe"}, 2, [24.2, 112.44806, 24.2, 2.1048244e11]),
    ({"max_iter": 6, "line_search_fn": "strong_wolfe"}, 7, [
        24.2, 112.44806, 4.1469271, 4.1255867, 4.1211268, 4.1118165, 4.0849554, 4.0849554,
        4.0222821, 3.9091443, 3.7589117, 3.4231655, 2.8597591, 2.4562577,
    ]),
    ({"max_iter": 6, "lr": 0.1, "line_search_fn": "strong_wolfe"}, 8, [
        24.2, 10.565634, 9.4992607, 4.2929255, 4.2655762, 4.1345786, 4.1339109, 4.1296294,
        4.1296294, 4.1288769, 4.1231677, 4.1203424, 4.0999406, 4.0927501, 4.0631421,
    ]),
]  # fmt: skip


def asked(function, start, steps=1, **options):
    """The losses that a closure was asked for, and how many after the first step."""
    x = Tensor(np.array(start), requires_grad=True)
    optimiser, losses, counts = nn.optim.LBFGS([x], **options), [], []

    def closure():
        optimiser.zero_grad()
        loss = function(x)
        loss.backward()
        losses.append(loss)
        return loss

    for _ in range(steps):
        assert optimiser.step(closure) is losses[counts[-1] if counts else 0]
        counts.append(len(losses))
    return counts[0], [loss.item() for loss in losses]


@pytest.mark.parametrize(("options", "first", "expected"), CALLS)
def test_the_closure_is_asked_where_pytorch_asks(options, first, expected):
    count, losses = asked(rosenbrock, [-1.2, 1.0], 2, **options)
    assert count == first
    np.testing.assert_allclose(losses, expected, rtol=1e-7)


def test_intervals_are_narrowed_as_by_pytorch():
    _, losses = asked(lambda x: (x.abs() ** 1.2).sum(), [1.0, -3.0], line_search_fn="strong_wolfe")
    expected = [
        4.7371928, 3.4171648, 3.3885163, 1.4813904, 2.3042008, 0.72549779, 0.89646658, 0.56128165,
        1.8228029, 0.27012201, 0.099825809, 0.42204146, 0.064616154, 0.0069351311, 0.071061792,
        0.008431017, 0.0048504324, 0.0047655525, 5.3608681e-05, 0.0055528571, 0.0002793984,
        4.667844e-05, 0.00028505516, 2.7104068e-05, 3.3653549e-06,
    ]  # fmt: skip
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    _, losses = asked(
        lambda x: (x * x + 1e-8).sqrt().sum(), [0.1272951, 2.19376315], max_iter=8, lr=3.0,
        line_search_fn="strong_wolfe", tolerance_change=0.1,
    )  # fmt: skip
    expected = [
        2.3210583, 2.0664676, 5.1789444, 1.5156281, 1.3910278, 1.3819793, 1.3738339, 1.3745745,
        1.3728641, 1.7884548, 0.82511222,
    ]  # fmt: skip
    np.testing.assert_allclose(losses, expected, rtol=1e-6)
