"""A trace in the terminal."""

from torpor.explore import content, show


def told(trace, name):
    """What is said of the steps of a pass of the first kernel."""
    steps = content.in_order(trace, trace.kernels[0])
    return "\n".join(map(show.step_text, show.steps(trace, steps, name)))


def test_the_list_has_a_line_for_each_kernel(trace):
    header, first, second = show.listing(trace.kernels).splitlines()
    assert header.split() == ["kernel", "runs", "time", "GFLOP/s", "GB/s", "reason"]
    assert first.endswith("fusion.py:4: b.contiguous()")
    assert "  contiguous  " in first
    assert "  output  " in second


def test_a_kernel_is_told_whole(trace):
    first = trace.kernels[0]
    text = show.kernel(trace, first)
    assert "stored because: contiguous (the program asks for it" in text
    assert first.source.rstrip() in text
    assert "= STORE void" in text


def test_kernels_are_chosen_by_name_and_line(trace):
    name = trace.kernels[0].name
    assert show.chosen(trace, name) == show.chosen(trace, f"{name[:2]}*") == trace.kernels
    assert show.chosen(trace, f"{name}#1") == trace.kernels[:1]
    assert show.chosen(trace, line="fusion.py:5") == trace.kernels[1:]
    assert show.chosen(trace, line="sion.py:5") == show.chosen(trace, "x*") == []


def test_rules_are_told_with_their_equation(trace):
    text = told(trace, "simplify")
    assert "rejoin_quotient  `(x//c)*c + x%c -> x`." in text
    assert "\n  + ridx0" in text
    assert told(trace, "other") == ""


def test_passes_are_told_with_what_they_left(trace):
    text = told(trace, "write_*")
    assert ": write_out  UPCAST and UNROLL axes become copies" in text
    assert "= SINK void" in text
