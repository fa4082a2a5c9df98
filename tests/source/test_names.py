import pytest

from torpor.base.errors import ContractError
from torpor.ir import UOp
from torpor.source import RENDERERS, render
from torpor.source.names import Names, identifier


@pytest.mark.parametrize(
    "name", ["", "1a", "a b", "a;", "a\n", "é", "float", "kernel", "__x", "fn"]
)
@pytest.mark.parametrize("target", RENDERERS)
def test_names_that_are_no_identifiers_are_refused(name, target):
    with pytest.raises(ContractError):
        render([], target, name)


@pytest.mark.parametrize("target", RENDERERS)
def test_names_of_variables_are_validated(target):
    size = UOp.variable("n) { exit(1); } void f(int x", 0, 5)
    loop = UOp.range(size, 0)
    with pytest.raises(ContractError):
        render([size, loop, UOp.end(loop)], target, "f")


def test_good_names_pass():
    assert [identifier(n) for n in ("r_4_4n1", "_a", "E_2_8")] == ["r_4_4n1", "_a", "E_2_8"]


def test_no_name_is_given_twice():
    names = Names(["alu1"])
    given = [
        names.numbered("alu"),
        names.numbered("alu"),
        names.exact("alu3"),
        names.numbered("alu"),
    ]
    assert given == ["alu0", "alu2", "alu3", "alu4"]
    assert names.exact("alu0") != "alu0"
