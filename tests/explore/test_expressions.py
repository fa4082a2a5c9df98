"""What `/expr` shows."""

import pytest

from torpor.explore.expressions import compute_expression

PLACES = [["ridx0", 0, 2], ["ridx1", 0, 1]]


def computed(variables, index, valid=""):
    return compute_expression({"variables": variables, "index": index, "valid": valid})


def test_the_documents_expression():
    found = computed(PLACES, "(((((ridx0*2)+ridx1)%3)*2)+(((ridx0*2)+ridx1)//3))", "1")
    assert found["cells"] == [0, 2, 4, 1, 3, 5]
    assert found["bounds"] == [0, 5]
    assert found["valid"] == "True"


def test_it_is_simplified_rule_by_rule():
    found = computed([["i", 0, 9]], "(i*8 + 3)//4", "i < 20")
    assert (found["index"], found["valid"]) == ("(i*2)", "True")
    rules = {step["rule"]: step for step in found["steps"]}
    assert (rules["divide_multiples"]["old"], rules["divide_multiples"]["new"]) == (
        "(((i*8)+3)//4)",
        "(i*2)",
    )
    assert "->" in rules["divide_multiples"]["says"]


def test_masked_elements_are_told():
    found = computed([["i", -1, 2]], "i*3", "0 <= i and i < 2")
    assert found["cells"] == [-3, 0, 3, 6]
    assert found["valids"] == [False, True, True, False]
    assert found["bounds"] == [-3, 6]


@pytest.mark.parametrize(
    ("variables", "index", "valid", "place", "offset"),
    [
        (PLACES, "ridx0*+ridx1", "", "index", 6),
        (PLACES, "ridx0 + ridx2", "", "index", 8),
        (PLACES, "ridx0 < 1", "", "index", 0),
        (PLACES, "ridx0", "ridx0 <", "valid", 7),
        (PLACES, "ridx0", "ridx0", "valid", 0),
        ([["a", 0, 1], ["a", 0, 1]], "a", "", "variables", 1),
        ([["a", 2, 1]], "a", "", "variables", 0),
        ([["a b", 0, 1]], "1", "", "variables", 0),
        ([["a", 0, None]], "a", "", "variables", 0),
        ([["a", 0, 1e9]], "a", "", "variables", 0),
        ([["a", 0, 1 << 60]], "a", "", "variables", 0),
        ([7], "1", "", "variables", 0),
        ([[f"a{n}", 0, 1] for n in range(9)], "1", "", "variables", 8),
    ],
)
def test_faults_say_where(variables, index, valid, place, offset):
    found = computed(variables, index, valid)
    assert found["error"]
    assert (found["in"], found["offset"]) == (place, offset)
