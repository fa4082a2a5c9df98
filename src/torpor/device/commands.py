"""The executor in native code: what runs a table of commands, and what a thread does with groups.

All is made of words of 64 bits. A program is (patches, where they are, commands, where they are,
the command to begin with, how often a run may go back to look again whether a loop ends: 0 for
ever); a run that has gone back so often is paused, and its next call goes on there. A patch says to
which address which of the words goes that a call is given, and how much is added to it.
A call is (program, the pool's state, its `run`, threads, helpers) and these words.
"""

from __future__ import annotations

from typing import Final

from torpor.device import worker
from torpor.device.words import Text

HEAD: Final = 6  # words of a program
PAUSED: Final = -1  # what a run gives that has gone back as often as it may
PATCH: Final = 3  # words of a patch
CALL: Final = 5  # words of a call before those that it is given
RECORD: Final = 6  # words of a command: entry, its table, total, where the trial of several threads
# is (0: one thread only), its error word, where the section that it begins is (0: none). Without
# entry it is a jump: its table has the address of a bool and which one it must be, its total is by
# how many commands to go on then. Without an address it counts: its table has where a loop is, and
# whether its rounds begin.
LOOP: Final = 4  # words of a loop: rounds so far, rounds, numbers that move, where they are
MOVE: Final = 3  # words of a number that moves: where it is, the first, by how much
SECTION: Final = 8  # words: next group, first failure, groups, where they are, where the commands
# are, the command past the last group, where the addresses of the threads' scratch memory are, how
# many threads have some
GROUP: Final = 4  # words of a group: first command, the one past the last, patches, where they are
# Threads share groups if `FAIR_OF` times the groups are at least `FAIR_PARTS` times the rounds of
# all threads. So a quarter of their time is lost at most, by choice: 2 threads share 3 groups,
# 3 threads do not share 4.
FAIR_OF: Final = 4
FAIR_PARTS: Final = 3

_TEXT: Final = """
def torpor_execute_copy(table, begin, end):
    memcpy(table[0] + begin, table[1] + begin, end - begin)


def torpor_execute_failed(record, command):
    failed = command + 1 << 32 | record[4]
    record[4] = 0
    return failed


def torpor_execute_alone(commands, first, end):
    for command in range(first, end):
        record = at(commands, command * RECORD)
        kernel = record[0]
        kernel(record[1], 0, record[2])
        if record[4]:
            return torpor_execute_failed(record, command)


def torpor_execute_groups(section, slot, past):
    groups, slots = section[2], section[6]
    base = slots[slot]
    while True:
        number = atomic_add(section, 1)
        if number >= groups:
            return
        group = at(section[3], number * GROUP)
        patch = group[3]
        for p in range(group[2]):
            place = patch[2 * p]
            place[0] = base + patch[2 * p + 1]
        failure = torpor_execute_alone(section[4], group[0], group[1])
        if failure:
            atomic_least(at(section, 1), failure)
            atomic_store(section, groups)
            return


def torpor_execute_section(call, section):
    threads, run = call[3], call[2]
    section[0], section[1] = 0, -1
    run(call[1], torpor_execute_groups, section, min(threads, section[7]), 1, call[4])
    return 0 if section[1] == -1 else section[1]


def torpor_execute_shared(call, record, command):
    pool = call[1]
    share = pool[SHARE]
    share(pool, record[0], record[1], record[2], call[3], call[4], record[3])
    if record[4]:
        return torpor_execute_failed(record, command)


def torpor_execute_counted(loop, begins):
    loop[0] = 0 if begins else loop[0] + 1
    more, move = loop[0] < loop[1], loop[3]
    if more:
        for m in range(loop[2]):
            place = move[m * MOVE]
            place[0] = move[m * MOVE + 1] + loop[0] * move[m * MOVE + 2]
    return more


def torpor_execute(call):
    given, program, threads = at(call, CALL), call[0], call[3]
    patch, commands, records = program[1], program[2], program[3]
    command = program[4]
    program[4] = 0
    for p in range(0, program[0] * PATCH, PATCH):
        place = patch[p]
        place[0] = given[patch[p + 1]] + patch[p + 2]
    while command < commands:
        record = at(records, command * RECORD)
        section, groups = record[5], 0
        if not record[0]:
            flags = record[1]
            if not flags[0]:
                command += record[2] if torpor_execute_counted(flags[1], flags[2]) else 1
            elif byte(flags[0]) != flags[1]:
                command += 1
            else:
                command += record[2]
                if record[2] < 0:
                    program[5] -= 1
                    if program[5] == 0:
                        program[4] = command
                        return PAUSED
            continue
        if threads > 1 and section:
            groups = section[2]
            rounds = (groups + threads - 1) // threads
            if groups * FAIR_OF < rounds * threads * FAIR_PARTS:
                groups = 0
        if groups:
            failed, past = torpor_execute_section(call, section), section[5]
        elif threads > 1 and record[3]:
            failed, past = torpor_execute_shared(call, record, command), command + 1
        else:
            failed, past = torpor_execute_alone(records, command, command + 1), command + 1
        if failed:
            return failed
        command = past
"""


def executor_text() -> Text:
    """The executor."""
    places = {name: value for name, value in globals().items() if isinstance(value, int)}
    return Text(_TEXT, {"SHARE": worker.SHARE, **places})
