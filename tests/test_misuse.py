"""Bad input raises where it is given, with a text that names what was called and what it takes."""

import pytest

import torpor
from torpor import Tensor, nn
from torpor.base.errors import TorporError

# A program, and what the error's text has.
PROGRAMS = {
    # not a tensor, and not a number
    'nn.Linear(2, 2)("a")': "Linear takes a tensor, not 'a'",
    "nn.LSTM(2, 2)(5)": "LSTM takes a tensor, not 5",
    "torpor.equal(x, 1)": "equal takes a tensor, not 1",
    'linalg.norm("a")': "norm takes a tensor, not 'a'",
    'linalg.vector_norm(x, "a")': "vector_norm(float32 (2, 2), 'a'): could not convert",
    'torpor.arange("a")': "arange('a'): must be real number",
    'x.std(correction="a")': "correction is a number, not 'a'",
    'torpor.logical_and(x, "a")': "'a'",
    'nn.Linear("a", 2)': "whole number, got 'a'",
    'nn.Dropout("a")': "dropout's probability is a number, not 'a'",
    'distributions.Normal("a", 1.0)': "a number or a tensor, not 'a'",
    'distributions.Normal(0.0, 1.0).sample("a")': "a size is an integer, not 'a'",
    "autograd.grad(5, x)": "grad takes tensors, not 5",
    "torpor.grad(lambda t: 5)(x)": "the function gives int",
    "torpor.grad(torpor.sum, argnums=5)(x)": "argnums=5 of 1 arguments",
    "torpor.jvp(torpor.sin, x, x)": "jvp's primals are a tuple",
    'torpor.manual_seed("x")': "a seed is a whole number, not 'x'",
    "torpor.Generator(None).manual_seed(None)": "a seed is a whole number, not None",
    "x.cumsum()": "cumsum() missing 1 required positional argument: 'dim'",
    "Tensor(2, 3)": "make a tensor by empty(2, 3)",
    "type('N', (nn.Module,), {'act': torpor.relu})().act(x)": "make it a staticmethod",
    "torpor.lu": "torpor.linalg.lu_factor",
    "isinstance(x, torpor.tensor)": "torpor.tensor is no type",
    "torpor.randint(3)": "(high, size) or (low, high, size)",
    # not the number, the name or the format
    'linalg.eigh(x, UPLO="X")': "UPLO is 'L' or 'U', not 'X'",
    'linalg.lstsq(x, x, driver="no")': "driver is 'gelsy', 'gels', 'gelsd' or 'gelss', not 'no'",
    'linalg.matrix_norm(x, "no")': "not 'no'",
    "linalg.matrix_power(x, 1.5)": "whole number, got 1.5",
    "torpor.polygamma(1.5, x)": "whole number, got 1.5",
    "x.triu(1.5)": "whole number, got 1.5",
    'x.diag("a")': "whole number, got 'a'",
    "torpor.grid_sampler_2d(image, grid, 7, 0, False)": "0 (bilinear), 1 (nearest), 2 (bicubic)",
    "torpor.grid_sampler_2d(image, grid, 0, -1, False)": "2 (reflection), not -1",
    "torpor.renorm(x, -1, 0, 1.0)": "p > 0",
    "torpor.tril_indices(-1, 2)": "cannot be negative",
    "torpor.bernoulli(Tensor([0, 1]))": "probabilities that are floats",
    "linalg.lu_solve(x, v, x)": "pivots are integers",
    "torpor.searchsorted(c, c)": "searchsorted does not take complex numbers",
    "c.normal_()": "normal_ does not take complex numbers",
    "c.uniform_()": "uniform_ does not take complex numbers",
    "functional.gaussian_nll_loss(v, v, -v)": "a variance is not negative",
    "torpor.quantile(v, 1.5)": "quantile's q is between 0 and 1, not 1.5",
    "torpor.quantile(v, Tensor([0.5, 1.5])).tolist()": "quantile's q is between 0 and 1",
    "functional.nll_loss(x, Tensor([1, 9])).item()": "axis 1 of length 2: 9",
    # not the shape
    "Tensor(1.0).logcumsumexp(2)": "axis 2 does not exist in a tensor of 0 axes",
    "functional.pixel_shuffle(image, 2)": "sizes (-1, 2, 2) do not make axis 1, of length",
    "functional.channel_shuffle(image, 9)": "sizes (9, -1) do not make axis 1, of length",
    "functional.fold(image, 8, 3)": "fold needs columns (batch, channels * 9, window)",
    "x.unflatten(1, (3, 3))": "sizes (3, 3) do not make axis 1, of length 2",
    "x[Tensor.ones(3).bool()]": "a mask of shape (3,) does not fit axes 0 and on, which are (2,)",
    "nn.BatchNorm2d(3)(x)": "expected (batch, 3, ...) of 4 axes, got (2, 2)",
    "x.rot90(1, (0, 0))": "name one axis twice",
    "x.rot90(1, (0,))": "two axes",
    "torpor.trapz(x, Tensor.ones(3))": "are not those of axis",
    "torpor.cartesian_prod(x)": "of vectors",
    "torpor.cov(x.unsqueeze(0))": "of rows of a matrix",
    "linalg.matrix_norm(x, dim=9)": "axis 9 does not exist",
    "linalg.matrix_norm(x, dim=0)": "two axes, not 0",
    "linalg.pinv(v)": "pinv needs matrices",
    "linalg.matrix_rank(v)": "matrix_rank needs matrices",
    "linalg.multi_dot([x])": "two matrices or more",
    "functional.embedding(w, v)": "weights (rows, width)",
    "functional.batch_norm(image, None, None)": "running_mean and running_var",
    "functional.ctc_loss(v, w, w, w)": "(steps, batch, classes)",
    "functional.ctc_loss(steps, Tensor(1), [5], [2])": "(steps, batch, classes)",
    "functional.ctc_loss(steps, Tensor([[1, 2]]), [[5]], [2])": "input_lengths are (1,)",
    "functional.ctc_loss(steps, Tensor([[1, 2]]), [6], [2])": "between 0 and 5, not 6",
    "functional.ctc_loss(steps, Tensor([[1, 2]]), [5], [3])": "between 0 and 2, not 3",
    "functional.ctc_loss(steps, Tensor([[1, 2]] * 2), [5], [2])": "are not of 1 samples",
    "functional.ctc_loss(steps, Tensor([1, 2]), [5], [1])": "target_lengths are 1 together",
    "functional.ctc_loss(steps, Tensor([[1, 2]]), [5], [2], blank=3)": "between 0 and 2, not 3",
    "nn.utils.rnn.pad_sequence([])": "no sequences",
    "nn.utils.rnn.pad_packed_sequence(x)": "takes a PackedSequence, not Tensor",
    # modules, states, optimisers, schedules, data
    "nn.Sequential(5)": "a module or a function is expected, not 5",
    "nn.ModuleList([5])": "a module or a function is expected, not 5",
    "nn.Module().load_state_dict(5)": "tensors by name, not int",
    'nn.Module().register_parameter("w", 5)': "a tensor or None, not 5",
    'nn.Module().train("a")': "True or False, not 'a'",
    'nn.utils.clip_grad_norm_([x], "a")': "max_norm is a number, not 'a'",
    'optim.SGD([x], lr="a")': "lr is a number, not 'a'",
    'optim.SGD([x], 0.1, momentum="a")': "momentum is a number, not 'a'",
    'optim.Adam([x], betas=("a", 0.5))': "betas is a number, not 'a'",
    "optim.SGD(5, 0.1)": "a sequence of parameters, not int; write [parameter]",
    "optim.SGD([x], 0.1).add_param_group(5)": "a dictionary with 'params', not 5",
    "optim.SGD([x], 0.1).load_state_dict({})": "'param_groups' and 'state'",
    "schedules.StepLR(None, 1)": "StepLR is of an optimiser, not None",
    "schedules.ReduceLROnPlateau(5)": "ReduceLROnPlateau is of an optimiser, not 5",
    "schedules.SequentialLR(None, [], [])": "SequentialLR is of an optimiser, not None",
    "schedules.ChainedScheduler([])": "ChainedScheduler is of an optimiser, not None",
    "schedules.SequentialLR(optim.SGD([x], 0.1), [5], [])": "joins schedules of its optimiser",
    "schedules.LambdaLR(optim.SGD([x], 0.1), 5)": "functions for 1 groups: [5]",
    "schedules.MultiStepLR(optim.SGD([x], 0.1), 5)": "a list of steps, not 5",
    'nn.data.DataLoader([1], batch_size="a")': "batch_size is a number, not 'a'",
    "nn.data.BatchSampler([1], 0)": "batch_size is between 1 and inf, not 0",
    "distributions.Independent(5, 1)": "a distribution is expected, not 5",
    "distributions.MixtureSameFamily(normal, normal)": "a mixture is by a Categorical",
    "distributions.Multinomial(-1, v)": "total_count is between 0 and inf, not -1",
}  # fmt: skip
TWICE = "nn.Linear(2, 2).register_buffer('weight', x)"


def run(program: str) -> None:
    space = {
        "torpor": torpor, "Tensor": Tensor, "nn": nn, "optim": torpor.optim,
        "functional": nn.functional, "linalg": torpor.linalg, "autograd": torpor.autograd,
        "distributions": torpor.distributions, "schedules": torpor.optim.lr_scheduler,
        "x": Tensor([[1.0, 2.0], [3.0, 4.0]]), "v": Tensor([1.0, 2.0]), "w": Tensor([0, 1]),
        "c": Tensor([1j]), "image": Tensor.ones(1, 1, 2, 2), "grid": Tensor.ones(1, 2, 2, 2),
        "steps": Tensor.ones(5, 1, 3), "normal": torpor.distributions.Normal(0.0, 1.0),
    }  # fmt: skip
    made = eval(program, space)
    if isinstance(made, Tensor):
        made.realize()


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_is_wrong_is_said(program):
    with pytest.raises((TorporError, TypeError)) as caught:
        run(program)
    assert PROGRAMS[program] in str(caught.value)


def test_a_buffer_takes_no_parameter_s_name():
    with pytest.raises(KeyError, match="has a parameter 'weight' already"):
        run(TWICE)


def test_what_a_function_of_the_user_raises_stays_as_it_is():
    def wrong(carry, step):
        raise ValueError("mine")

    with pytest.raises(ValueError, match=r"^mine$") as caught:
        torpor.scan(wrong, Tensor(0.0), Tensor([1.0]))
    assert type(caught.value) is ValueError

    class Net(nn.Module):
        def forward(self, x):
            return x.missing

    with pytest.raises(AttributeError, match="'dict' object has no attribute 'missing'"):
        Net()({})
