"""What is computed for the pages takes no longer than it may."""

import pytest

from torpor.explore.compute import Computer, compute

VIEW = {"text": "from_shape((2,)).flip(0)"}
# A minimum of 150 quotients, whose bounds are compared by pairs.
SLOW = {
    "variables": [[f"x{n}", 0, 9] for n in range(8)],
    "index": f"min({','.join(f'x{n % 8}*{n}//3' for n in range(150))})",
}


@pytest.fixture
def computer():
    one = Computer(patience=30)
    yield one
    one.close()


def test_it_computes_what_would_be_computed_here(computer):
    found = computer("views", VIEW)
    assert found["cells"] == compute("views", VIEW)["cells"] == [1, 0]
    fault = {"variables": [], "index": "1 +", "valid": ""}
    assert computer("expr", fault) == compute("expr", fault)


def test_what_takes_too_long_is_given_up_and_the_next_is_computed():
    computer = Computer(patience=0.001)
    assert computer("expr", SLOW)["error"] == "this takes longer than 0.001 seconds"
    computer.close()
    computer = Computer(patience=30)
    assert computer("views", VIEW)["cells"] == [1, 0]
    computer.close()


def test_a_process_that_has_ended_is_started_again(computer):
    assert computer("views", VIEW)["cells"] == [1, 0]
    computer._process.kill()
    assert "could not be computed" in computer("views", VIEW)["error"]
    assert computer("views", VIEW)["cells"] == [1, 0]
