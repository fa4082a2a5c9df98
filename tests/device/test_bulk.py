"""Tasks that a second process works at beside this one: their order, their faults, its end."""

import os
import signal
import threading
import time

import pytest

from torpor.device import bulk

SERVER = """
import os, sys
from torpor.device.bulk import serve
def work(task):
    open({begun!r}, "w").close()
    if task == "crash":
        os._exit(3)
    if task == "refuse":
        raise ValueError(task)
    return (task, os.getpid())
serve(work)
"""


@pytest.fixture
def begun(monkeypatch, tmp_path):
    """A file that is there as soon as the other process has a task."""
    monkeypatch.setattr(bulk.os, "cpu_count", lambda: 2)
    return tmp_path / "begun"


def wait_for(condition):
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def by_both(tasks, begun):
    """What is made of tasks, by this process not before the other one has begun with them."""
    begun.unlink(missing_ok=True)

    def here(number):
        wait_for(begun.exists)
        return (tasks[number], os.getpid())

    return bulk.make_all(tasks, here, SERVER.format(begun=str(begun)))


def numbered(count):
    return [f"task {n}" for n in range(count)]


def test_each_task_is_done_once_and_results_are_in_order(begun):
    made = by_both(numbered(40), begun)
    assert [task for task, _ in made] == numbered(40)
    assert len({process for _, process in made}) == 2


def test_the_process_is_there_for_the_next_tasks(begun):
    first = {process for _, process in by_both(numbered(40), begun)}
    assert {process for _, process in by_both(numbered(40), begun)} == first


def test_what_nobody_waits_for_is_done_there_too(begun):
    command = SERVER.format(begun=str(begun))
    bulk.begin(command, "alone")  # no process runs: it is left undone
    assert not begun.exists()
    by_both(numbered(40), begun)
    begun.unlink()
    bulk.begin(command, "refuse")
    wait_for(begun.exists)
    assert [task for task, _ in by_both(numbered(40), begun)] == numbered(40)


@pytest.mark.parametrize("fault", ["crash", "refuse"])
def test_what_fails_there_is_done_here(fault, begun):
    tasks = [*numbered(2), *[fault] * 30, *numbered(3)]
    made = by_both(tasks, begun)
    assert [task for task, _ in made] == tasks
    assert {process for task, process in made if task == fault} == {os.getpid()}


def test_an_error_here_ends_it_all(begun):
    def here(number):
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        bulk.make_all([None] * 9, here, SERVER.format(begun=str(begun)))


def test_what_has_been_made_there_is_taken_even_if_all_ends_here(begun):
    taken = []

    def here(number):
        wait_for(begun.exists)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        bulk.make_all(numbered(9), here, SERVER.format(begun=str(begun)), taken.append)
    wait_for(lambda: taken)
    assert taken[0][0] in numbered(9)


def test_an_idle_process_ends(begun, monkeypatch):
    monkeypatch.setattr(bulk, "IDLE_SECONDS", 0.1)
    by_both(numbered(40), begun)

    def at_work():
        return any(str(begun) in getattr(one, "command", "") for one in threading.enumerate())

    wait_for(lambda: not at_work())


def test_few_tasks_need_no_process(monkeypatch):
    monkeypatch.setattr(bulk.subprocess, "Popen", None)
    assert bulk.make_all([1, 2], lambda number: number + 10, "never run") == [10, 11]


def test_a_process_that_is_not_ready_gets_no_task(begun, tmp_path):
    gate = tmp_path / "gate"
    late = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)\n"
    command = late + SERVER.format(begun=str(begun))
    made = bulk.make_all(numbered(9), lambda number: ("here", number), command)
    assert made == [("here", number) for number in range(9)]  # nobody waited for it
    gate.touch()


def test_a_process_that_is_awake_works_at_two_tasks(begun):
    command = SERVER.format(begun=str(begun))
    bulk.wake(command)
    helper = bulk._helpers[command]
    wait_for(lambda: helper.ready)

    def here(number):
        wait_for(begun.exists)
        return ("here", os.getpid())

    made = bulk.make_all(numbered(2), here, command, starts=False)
    assert len({process for _, process in made}) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_waits_for_no_thread_of_its_parent():
    helper = bulk._Helper("none")
    with helper.lock:  # as while its thread looks for more to do
        bulk._helpers["none"] = helper
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            made = bulk.make_all([1, 2, 3], lambda number: number * 2, "none")
            os._exit(made != [0, 2, 4])
    del bulk._helpers["none"]
    assert os.waitpid(child, 0)[1] == 0
