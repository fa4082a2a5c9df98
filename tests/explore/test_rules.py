"""What rules and passes mean, read from the sources."""

from torpor.explore.rules import meaning
from torpor.rules.exact import multiply_by_one


def test_a_rule_says_its_equation_and_stands_where_it_does():
    found = meaning("multiply_by_one")
    assert found.says == "`x*1 -> x`, `x/1 -> x`, `x//1 -> x` on numbers."
    line = multiply_by_one.__code__.co_firstlineno
    assert found.place == f"torpor/rules/exact.py:{line}"
    assert found.source.startswith("def multiply_by_one(")


def test_of_passes_the_file_tells_which():
    assert meaning("choose_index_width", "kernel/lower.py").says.startswith("Index arithmetic")
    assert meaning("choose_index_width", "nowhere.py") == meaning("no_such_rule") == ("", "", "")
