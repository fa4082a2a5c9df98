"""Factorisations where values are not known: while a jit traces, in loops, branches and `vmap`."""

import numpy as np
import pytest

import torpor
from torpor import Tensor, linalg
from torpor.device import host
from torpor.ir.text import parse, show

RANDOM = np.random.default_rng(7)
MATRICES = RANDOM.standard_normal((4, 3, 3))
PLAIN = Tensor(MATRICES)
POSITIVE = Tensor(MATRICES @ MATRICES.swapaxes(-1, -2) + np.eye(3))
TURNED = torpor.complex(PLAIN, Tensor(RANDOM.standard_normal((4, 3, 3))))
SINGULAR = Tensor([[1.0, 2.0], [2.0, 4.0]])
GOOD = Tensor([[2.0, 0.0], [0.0, 4.0]])
FUNCTIONS = {
    "inv": lambda: linalg.inv(PLAIN),
    "inv of halves": lambda: linalg.inv(PLAIN.cast("float16")).float(),
    "inv, complex": lambda: torpor.view_as_real(linalg.inv(TURNED)),
    "solve": lambda: linalg.solve(PLAIN, POSITIVE),
    "det": lambda: linalg.det(PLAIN),
    "slogdet": lambda: linalg.slogdet(PLAIN)[1],
    "cholesky": lambda: linalg.cholesky(POSITIVE, upper=True),
    "cholesky_inverse": lambda: torpor.cholesky_inverse(linalg.cholesky(POSITIVE)),
    "qr": lambda: linalg.qr(PLAIN).R,
    "eigh": lambda: linalg.eigh(POSITIVE)[0],
    "eigvals": lambda: linalg.eigvals(PLAIN).abs(),
    "svd, complex": lambda: linalg.svd(TURNED)[1],
    "pinv": lambda: linalg.pinv(PLAIN[:, :2], atol=Tensor(1e-9)),
    "lstsq": lambda: linalg.lstsq(PLAIN[:, :, :2], POSITIVE)[0],
    "lu": lambda: linalg.lu(PLAIN[:, :2]).U,
    "lu_solve": lambda: linalg.lu_solve(*linalg.lu_factor(PLAIN), POSITIVE),
    "matrix_rank": lambda: linalg.matrix_rank(PLAIN),
    "inv_ex": lambda: linalg.inv_ex(PLAIN)[1],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_jitted_function_is_replayed(name):
    runs = []

    @torpor.jit
    def jitted():
        runs.append(1)
        return FUNCTIONS[name]()

    wanted = FUNCTIONS[name]().numpy()
    for _ in range(4):
        np.testing.assert_allclose(jitted().numpy(), wanted, rtol=1e-6, atol=1e-12)
    assert len(runs) <= 2  # the function ran while it was traced, and not after


def evidence(points, values, steps, jitted):
    """Losses of a Gaussian process whose length, noise and size Adam fits, and how often it ran."""
    x, y = Tensor(points), Tensor(values)
    logs = [torpor.zeros(()).requires_grad_() for _ in range(3)]
    optimiser, runs = torpor.nn.optim.Adam(logs, lr=0.1), []

    def step():
        runs.append(1)
        length, size, noise = (one.exp() for one in logs)
        apart = (x.unsqueeze(1) - x).square().sum(-1)
        covariance = size * (apart / length / -2).exp() + noise * torpor.eye(len(points))
        factor = linalg.cholesky(covariance)
        right = linalg.solve(factor, y.unsqueeze(1))
        loss = right.square().sum() / 2 + factor.diagonal().log().sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss

    step = torpor.jit(step) if jitted else step
    return [step().item() for _ in range(steps)], len(runs)


def test_training_through_cholesky_is_replayed():
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle")
    points = RANDOM.standard_normal((12, 2)).astype(np.float32)
    values = np.sin(points.sum(1))
    x, y = torch.tensor(points), torch.tensor(values)
    logs = [torch.zeros((), requires_grad=True) for _ in range(3)]
    optimiser, wanted = torch.optim.Adam(logs, lr=0.1), []
    for _ in range(8):
        length, size, noise = (one.exp() for one in logs)
        apart = (x.unsqueeze(1) - x).square().sum(-1)
        factor = torch.linalg.cholesky(size * (apart / length / -2).exp() + noise * torch.eye(12))
        right = torch.linalg.solve(factor, y.unsqueeze(1))
        loss = right.square().sum() / 2 + factor.diagonal().log().sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        wanted.append(loss.item())
    for jitted in (False, True):
        found, runs = evidence(points, values, 8, jitted)
        np.testing.assert_allclose(found, wanted, rtol=1e-4)
    assert runs <= 3


def test_a_jitted_function_sees_the_error():
    @torpor.jit
    def factor(a):
        try:
            return linalg.cholesky(a)
        except linalg.LinAlgError:
            return a * 0

    below = Tensor([[1.0, 2.0], [2.0, 1.0]])
    wanted = np.diag([2**0.5, 2.0])
    for one in (GOOD, GOOD, GOOD, below, GOOD, below):
        expected = wanted if one is GOOD else np.zeros((2, 2))
        np.testing.assert_allclose(factor(one).numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("before", [0, 1, 3])
def test_a_replay_that_fails_says_so(before):
    inverse = torpor.jit(linalg.inv)
    for _ in range(before):
        inverse(GOOD)
    with pytest.raises(linalg.LinAlgError, match="Singular"):
        inverse(SINGULAR)
    np.testing.assert_allclose(inverse(GOOD).numpy(), np.diag([0.5, 0.25]))


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("before", [1, 3])
def test_exceptions_leave_native_code(monkeypatch, error, before):
    inverse = torpor.jit(linalg.inv)
    for _ in range(before):
        inverse(GOOD)

    def raising(*_):
        raise error

    with monkeypatch.context() as changed:
        changed.setitem(host.FUNCTIONS, "inverse", raising)
        with pytest.raises(error):
            inverse(GOOD).numpy()
    np.testing.assert_allclose(inverse(GOOD).numpy(), np.diag([0.5, 0.25]))


# --- loops and branches ---------------------------------------------------------------------------
def test_scans_and_their_gradients():
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle")
    leaf = Tensor(MATRICES).requires_grad_()
    start = Tensor(np.eye(3))
    last, each = torpor.scan(lambda c, x: (c @ linalg.inv(x), linalg.det(x)), start, leaf)
    (last.sum() + each.square().sum()).backward()
    x, product = torch.tensor(MATRICES, requires_grad=True), torch.eye(3, dtype=torch.float64)
    for matrix in x:
        product = product @ torch.linalg.inv(matrix)
    (product.sum() + torch.linalg.det(x).square().sum()).backward()
    np.testing.assert_allclose(last.numpy(), product.detach().numpy(), rtol=1e-8)
    np.testing.assert_allclose(leaf.grad.numpy(), x.grad.numpy(), rtol=1e-7)


def test_loops_as_long_as_something_holds():
    def turned(state):
        return state[0] + 1, linalg.inv(state[1])

    count, found = torpor.while_loop(lambda state: state[0] < 3, turned, (Tensor(0), PLAIN[0]))
    assert count.item() == 3
    np.testing.assert_allclose(found.numpy(), np.linalg.inv(MATRICES[0]), rtol=1e-9)


def test_only_the_branch_that_is_taken_fails():
    def either(which):
        return torpor.cond(Tensor(which), linalg.inv, lambda x: x * 2, SINGULAR)

    np.testing.assert_allclose(either(False).numpy(), SINGULAR.numpy() * 2)
    with pytest.raises(linalg.LinAlgError, match="Singular"):
        either(True).numpy()


def test_vmap_of_what_says_which_matrix_fails():
    both = torpor.stack([SINGULAR, GOOD])
    found = torpor.vmap(linalg.inv_ex)(both)
    assert found.info.tolist() == [2, 0]
    np.testing.assert_allclose(found.inverse[1].numpy(), np.diag([0.5, 0.25]))
    assert found.inverse[0].isnan().all().item()


def test_vmap_that_draws_the_same():
    """Matrices are factorised in it as in any."""
    found = torpor.vmap(linalg.inv, randomness="same")(PLAIN)
    np.testing.assert_allclose(found.numpy(), np.linalg.inv(MATRICES), rtol=1e-9)


@pytest.mark.parametrize("device", ["PYTHON", "CPU:1"])
def test_other_devices(device):
    solve = torpor.jit(lambda x: linalg.solve(x, x + 1))
    x = Tensor(MATRICES, device=device)
    for _ in range(3):
        found = solve(x)
        assert found.device == device
        np.testing.assert_allclose(
            found.numpy(), np.linalg.solve(MATRICES, MATRICES + 1), rtol=1e-8
        )


def test_several_devices_at_once():
    x = Tensor(MATRICES).shard(("CPU", "CPU:1"), axis=0)
    inverse = torpor.jit(lambda x: linalg.inv(x) * 1)
    for _ in range(3):
        found = inverse(x)
        assert found.device == ("CPU", "CPU:1")
        np.testing.assert_allclose(found.numpy(), np.linalg.inv(MATRICES), rtol=1e-9)


def test_copies_to_another_device_in_a_scan():
    rows = Tensor(np.arange(12.0).reshape(4, 3))
    _, found = torpor.scan(lambda _, x: (None, (x.to("CPU:1") * 2).to("CPU")), None, rows)
    np.testing.assert_array_equal(found.numpy(), rows.numpy() * 2)


def test_what_the_host_computes_is_read_again_from_its_text():
    asts = [item.ast for item in torpor.vmap(linalg.inv)(PLAIN).schedule() if item.reason == "host"]
    assert asts
    assert all(parse(show(ast)) is ast for ast in asts)


@pytest.mark.parametrize("name", ["svd", "svdvals", "pinv"])
@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_singular_values_of_matrices_that_are_not_finite_are_errors(name, wrong):
    whole = Tensor([[2.0, 1.0], [1.0, 3.0]])
    function = torpor.jit(getattr(torpor.linalg, name))
    for _ in range(3):
        function(whole)
    for computed in (getattr(torpor.linalg, name), function):
        with pytest.raises(torpor.linalg.LinAlgError, match="did not converge"):
            computed(Tensor([[wrong, 1.0], [1.0, 3.0]]))
    assert function(whole) is not None
