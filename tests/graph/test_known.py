"""What stands for graphs that have been computed."""

import gc
import weakref

from tests.kernel.kernels import add, sample
from torpor.graph import build
from torpor.graph.known import is_noted, note, shown


def test_what_is_noted_is_shown_as_long_as_the_node_lives():
    x, memory = sample(3), sample(3, step=2)
    node = add(x, x)
    assert shown(node) is node
    note(node, memory)
    assert shown(node) is memory and is_noted(node, memory) and not is_noted(node, x)
    held = weakref.ref(memory)
    del node, memory
    gc.collect()
    assert held() is None


def test_another_name_of_a_value_is_shown_as_the_value():
    x, memory = sample(3), sample(3, step=2)
    node = add(x, x)
    other = build.again(node, build.identity())
    assert shown(other) is node
    note(node, memory)
    assert shown(other) is memory
