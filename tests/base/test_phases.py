"""What phases tell, and to whom."""

import threading

import pytest

from torpor.base import phases


class Heard(phases.Listener):
    def __init__(self):
        self.events = []

    def hear(self, event):
        self.events.append(event)

    @property
    def names(self):
        return [(event.phase, event.name) for event in self.events]


@pytest.fixture
def heard():
    listener = Heard()
    with phases.listening(listener):
        yield listener


def test_a_phase_is_told_of_when_it_is_over_with_its_line(heard):
    with phases.phase("compile", "it", "new"):
        assert not heard.events
    (event,) = heard.events
    assert (event.phase, event.name, event.why) == ("compile", "it", "new")
    assert event.own == event.seconds >= 0
    assert event.thread == threading.get_ident()


def test_what_is_told_inside_is_no_time_of_its_own(heard):
    with phases.phase("launch"):
        with phases.phase("schedule"):
            phases.note("kernel", "k", 0.0, 5.0)
        phases.note("kernel", "k", 0.0, 7.0)
    _, schedule, _, launch = heard.events
    assert schedule.own == pytest.approx(schedule.seconds - 5)
    assert launch.own == pytest.approx(launch.seconds - schedule.seconds - 7)


def test_an_error_ends_a_phase_and_goes_on(heard):
    with pytest.raises(KeyError), phases.phase("trace"):
        raise KeyError
    with phases.phase("trace"):
        pass
    assert [event.own == event.seconds for event in heard.events] == [True, True]


def test_nested_listeners_all_hear_and_other_threads_are_not_heard(heard):
    inner = Heard()
    with phases.listening(inner):
        phases.note("kernel", "both", 0.0, 1.0)
        thread = threading.Thread(target=phases.note, args=("kernel", "none", 0.0, 1.0))
        thread.start()
        thread.join()
    phases.note("kernel", "outer", 0.0, 1.0)
    assert inner.names == [("kernel", "both")]
    assert heard.names == [("kernel", "both"), ("kernel", "outer")]


def test_where_nobody_listens_nothing_is_told():
    listener = Heard()
    with phases.listening(listener):
        pass
    assert not phases.heard()
    with phases.phase("launch"):
        phases.note("kernel", "k", 0.0, 1.0)
    assert not listener.events
