"""Every public function says what it gives, and the reference shows it."""

import re

import pytest

from tools.reference import measure, pages, refusals, samples
from tools.reference.facts import facts
from tools.reference.listing import NAMESPACES, entries, homes

MADE = sorted(
    (call, entry.path)
    for entry in homes().values()
    if ">>>" not in entry.text and (call := samples.call_of(entry)) is not None
)


def test_every_public_name_says_what_it_gives():
    assert len(entries()) > 2000
    assert [entry.path for entry in entries() if not entry.text] == []


def test_names_of_the_table_are_public():
    public = {entry.name if entry.space == "Tensor" else entry.path for entry in entries()}
    assert set(samples.rows()) | set(samples.rows("refused.txt")) <= public


def test_examples_that_are_made_can_be_called():
    failed = {}
    for call, path in MADE:
        try:
            samples.evaluate(call)
        except Exception as error:
            failed[path] = f"{call}: {error}"
    assert failed == {}


@pytest.mark.parametrize("call", ["x.exp()", "linalg.solve(a, x)", "v.dot(v)"])
def test_an_example_is_set_with_what_it_names(call):
    setting = samples.setting(call)
    assert set(setting) == set(re.findall(r"\b(?:x|a|v)\b", call))


def test_examples_show_what_they_print():
    exp = next(entry for entry in entries() if entry.path == "Tensor.relu")
    assert samples.shown(exp) == (
        "```pycon\n>>> x = Tensor([[0.5, 0.25], [0.75, 1.0]])\n>>> x.relu()\n"
        "tensor([[0.5 , 0.25],\n        [0.75, 1.  ]])\n```"
    )


def test_facts_are_found_by_calling():
    by_path = {entry.path: entry for entry in entries()}
    product = facts(by_path["Tensor.mm"])
    assert product.shapes == "`x[rows, columns]`, `y[columns, inner]` → `[rows, inner]`"
    assert product.formats == "all stay"
    assert "ShapeError: mm is for 2 and 2 axes" in product.errors
    sine = facts(by_path["Tensor.sin"])
    assert sine.shapes == "`x[...]` of any shape, which stays"
    assert (
        sine.formats == "bool, integers give `float32`; 8-bit floats, floats, complex numbers stay"
    )
    assert sine.errors.startswith("**Errors:** none was met in ")
    assert facts(by_path["Tensor.unfold"]).shapes.endswith("→ `[..., rows, columns, 1]`")


@pytest.mark.parametrize("space", NAMESPACES)
def test_errors_that_a_text_names_are_raised(space):
    for entry in homes().values():
        claimed = set(re.findall(r"\b[A-Z]\w*Error\b", entry.text))
        if entry.space == space and claimed:
            kinds = {kind for one in refusals.every(entry) for kind in one.kind.__mro__}
            assert claimed <= {kind.__name__ for kind in kinds}, entry.path


def test_each_name_says_shapes_and_errors_and_has_an_example():
    some = [*homes().values()][::60]  # `make docs` asks all
    assert {entry.path: measure.lacking(entry) for entry in some if measure.lacking(entry)} == {}


def test_signatures_leave_out_what_says_nothing():
    by_path = {entry.path: entry for entry in entries()}
    assert by_path["Tensor.matrix_power"].signature == "(n: int) -> Tensor"
    assert by_path["Tensor.H"].signature == ""
    assert pages._called(by_path["nn.AvgPool2d"]).startswith("nn.AvgPool2d(kernel_size")


def test_prose_keeps_signs_and_links_names():
    assert pages.prose("beta * x <y", "Tensor") == r"beta \* x \<y"
    assert pages.prose("As `exp`.", "Tensor") == (
        "As [`exp`](functions-of-one-element.md#Tensor.exp)."
    )
    assert pages.prose("Text.\n\n>>> 1\n1", "Tensor") == "Text.\n\n```pycon\n>>> 1\n1\n```"
