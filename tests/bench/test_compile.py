"""Random kernels compile, whatever they compute, and are the same ones each time."""

import pytest

from bench.compile import PROGRAMS, TARGETS, Drawn, kernels, percentile, times
from torpor.base.errors import ContractError


def test_random_kernels_compile_for_every_target():
    made = list(times(24, seed=11))
    assert len(made) == 24
    assert [one.failure for one in made if one.failure] == []
    assert {one.kernel.split()[0] for one in made} == set(TARGETS)


@pytest.mark.parametrize("program", dict.fromkeys(PROGRAMS), ids=lambda p: p.__name__)
def test_every_kind_of_program_has_kernels(program):
    for seed in range(3):
        roots = program(Drawn(seed))
        assert len(roots[0].schedule(*roots[1:])) > 0


def test_a_seed_means_the_same_kernels():
    first, again = ([ast.key for _, ast in kernels(5)] for _ in range(2))
    assert first == again != [ast.key for _, ast in kernels(6)]


def test_what_fails_is_told(monkeypatch):
    def refuse(ast, target):
        raise ContractError("something is needed to compute itself")

    monkeypatch.setattr("bench.compile.compiled", refuse)
    (made,) = times(1)
    assert made.failure == "ContractError: something is needed to compute itself"


def test_percentiles_are_times_that_were_measured():
    seconds = [0.1, 0.4, 0.2, 0.3]
    assert [percentile(seconds, share) for share in (0.0, 0.5, 0.99)] == [0.1, 0.3, 0.4]
