"""Every public function says what it gives, and the reference shows it."""

import re

import pytest

from tools.reference import measure, pages, samples
from tools.reference.listing import entries, homes

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
    assert set(samples.rows()) <= public


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
    setting = samples._setting(call)
    assert set(setting) == set(re.findall(r"\b(?:x|a|v)\b", call))


def test_examples_show_what_they_print():
    exp = next(entry for entry in entries() if entry.path == "Tensor.relu")
    assert samples.shown(exp) == (
        "```pycon\n>>> x = Tensor([[0.5, 0.25], [0.75, 1.0]])\n>>> x.relu()\n"
        "tensor([[0.5 , 0.25],\n        [0.75, 1.  ]])\n```"
    )


def test_no_fewer_say_shapes_and_have_examples():
    _, shapes, errors, examples = measure.row(list(homes().values()))
    assert shapes >= 860
    assert errors >= 680
    assert examples >= 1070


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
