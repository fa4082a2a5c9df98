"""LLVM IR of the executor: what runs a table of commands, and what a thread does with groups.

All is made of words of 64 bits. A program is (error word, patches, where they are, commands, where
they are, the command to begin with, how often a run may go back to look again whether a loop ends:
0 for ever); a run that has gone back so often is paused, and its next call goes on there. A patch
says to which address which of the words goes that a call is given, and how much
is added to it.
A call is (program, the pool's state, its `run`, threads, helpers) and these words.
"""

from __future__ import annotations

from typing import Final

from torpor.device import worker
from torpor.device.words import written_out

HEAD: Final = 7  # words of a program
PAUSED: Final = -1  # what a run gives that has gone back as often as it may
PATCH: Final = 3  # words of a patch
CALL: Final = 5  # words of a call before those that it is given
RECORD: Final = 6  # words of a command: entry, its table, total, where the trial of several threads
# is (0: one thread only), where its error word is (0: none), where the section that it begins is
# (0: none). One without entry is a jump: its table has the address of a bool and which one it must
# be, its total is by how many commands to go on then. Without an address it counts: its table has
# where a loop is, and whether its rounds begin.
LOOP: Final = 4  # words of a loop: rounds so far, rounds, numbers that move, where they are
MOVE: Final = 3  # words of a number that moves: where it is, the first, by how much
SECTION: Final = 8  # words: next group, first failure, groups, where they are, where the commands
# are, the command past the last group, where the addresses of the threads' scratch memory are, how
# many threads have some
GROUP: Final = 5  # words of a group: first command, the one past the last, patches, where they are,
# error word
# Threads share groups if `FAIR_OF` times the groups are at least `FAIR_PARTS` times the rounds of
# all threads. So a quarter of their time is lost at most, by choice: 2 threads share 3 groups,
# 3 threads do not share 4.
FAIR_OF: Final = 4
FAIR_PARTS: Final = 3

_TEXT: Final = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i64 @llvm.smin.i64(i64, i64)

define void @torpor_execute_copy(ptr %table, i64 %begin, i64 %end) {{
  %to.start = load ptr, ptr %table
  %from.start = ptr %table[1]
  %to = getelementptr i8, ptr %to.start, i64 %begin
  %from = getelementptr i8, ptr %from.start, i64 %begin
  %count = sub i64 %end, %begin
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %count, i1 false)
  ret void
}}

define i64 @torpor_execute_alone(ptr %commands, i64 %first, i64 %end) {{
start:
  br label %look
look:
  %c = phi i64 [%first, %start], [%c.next, %following]
  if slt i64 %c, %end then %run else %done
run:
  %c.place = mul i64 %c, {RECORD}
  %entry.p = at %commands[%c.place]
  %entry = load ptr, ptr %entry.p
  %table = ptr %entry.p[1]
  %total = i64 %entry.p[2]
  %error.p = ptr %entry.p[4]
  call void %entry(ptr %table, i64 0, i64 %total)
  %c.next = add i64 %c, 1
  if ne ptr %error.p, null then %check else %following
check:
  %error = load i64, ptr %error.p
  if ne i64 %error, 0 then %fail else %following
following:
  br label %look
fail:
  store i64 0, ptr %error.p
  %high = shl i64 %c.next, 32
  %both = or i64 %high, %error
  ret i64 %both
done:
  ret i64 0
}}

define void @torpor_execute_groups(ptr %section, i64 %slot, i64 %past) {{
start:
  %failure.p = at %section[1]
  %groups = i64 %section[2]
  %group.p = ptr %section[3]
  %commands = ptr %section[4]
  %slots = ptr %section[6]
  %base = i64 %slots[%slot]
  br label %claim
claim:
  %g = atomicrmw add ptr %section, i64 1 seq_cst
  if slt i64 %g, %groups then %begin else %done
begin:
  %g.place = mul i64 %g, {GROUP}
  %first.p = at %group.p[%g.place]
  %first = load i64, ptr %first.p
  %end = i64 %first.p[1]
  %patches = i64 %first.p[2]
  %patch = ptr %first.p[3]
  br label %filling
filling:
  %p = phi i64 [0, %begin], [%p.next, %fill]
  if slt i64 %p, %patches then %fill else %run
fill:
  %p.twice = shl i64 %p, 1
  %to.p = at %patch[%p.twice]
  %to = load ptr, ptr %to.p
  %offset = i64 %to.p[1]
  %address = add i64 %base, %offset
  store i64 %address, ptr %to
  %p.next = add i64 %p, 1
  br label %filling
run:
  %failure = call i64 @torpor_execute_alone(ptr %commands, i64 %first, i64 %end)
  if ne i64 %failure, 0 then %fail else %claim
fail:
  %other = atomicrmw umin ptr %failure.p, i64 %failure seq_cst
  store atomic i64 %groups, ptr %section seq_cst, align 8
  br label %done
done:
  ret void
}}

define i1 @torpor_execute_fair(i64 %groups, i64 %threads) {{
  %short = sub i64 %threads, 1
  %rounded = add i64 %groups, %short
  %rounds = udiv i64 %rounded, %threads
  %room = mul i64 %rounds, %threads
  %room.part = mul i64 %room, {FAIR_PARTS}
  %groups.part = mul i64 %groups, {FAIR_OF}
  %fair = icmp sge i64 %groups.part, %room.part
  ret i1 %fair
}}

define i64 @torpor_execute(ptr %call) {{
start:
  %given = at %call[5]
  %program = load ptr, ptr %call
  %pool = ptr %call[1]
  %run = ptr %call[2]
  %threads = i64 %call[3]
  %helpers = i64 %call[4]
  %patches = i64 %program[1]
  %patch = ptr %program[2]
  %commands = i64 %program[3]
  %command = ptr %program[4]
  %first.p = at %program[5]
  %first = load i64, ptr %first.p
  store i64 0, ptr %first.p
  br label %filling
filling:
  %p = phi i64 [0, %start], [%p.next, %fill]
  if slt i64 %p, %patches then %fill else %running
fill:
  %p.place = mul i64 %p, {PATCH}
  %to.p = at %patch[%p.place]
  %to = load ptr, ptr %to.p
  %which = i64 %to.p[1]
  %offset = i64 %to.p[2]
  %word = i64 %given[%which]
  %value = add i64 %word, %offset
  store i64 %value, ptr %to
  %p.next = add i64 %p, 1
  br label %filling
running:
  %c = phi i64 [%first, %filling], [%c.next, %following], [%past, %following.section],
             [%jumped, %jumping]
  if slt i64 %c, %commands then %look else %done
look:
  %c.next = add i64 %c, 1
  %c.place = mul i64 %c, {RECORD}
  %entry.p = at %command[%c.place]
  %kernel = load ptr, ptr %entry.p
  if eq ptr %kernel, null then %jump else %choose
jump:
  %flags = ptr %entry.p[1]
  %by = i64 %entry.p[2]
  %flag.p = load ptr, ptr %flags
  %wanted = i64 %flags[1]
  if eq ptr %flag.p, null then %count else %ask
count:
  %block = ptr %flags[1]
  %opens.word = i64 %flags[2]
  %opens = icmp ne i64 %opens.word, 0
  %n.before = load i64, ptr %block
  %n.more = add i64 %n.before, 1
  %n.now = select i1 %opens, i64 0, i64 %n.more
  store i64 %n.now, ptr %block
  %n = i64 %block[1]
  %ms = i64 %block[2]
  %move = ptr %block[3]
  %more = icmp slt i64 %n.now, %n
  br i1 %more, label %moving, label %counted
moving:
  %m = phi i64 [0, %count], [%m.next, %shift]
  if slt i64 %m, %ms then %shift else %counted
shift:
  %m.place = mul i64 %m, {MOVE}
  %word.pp = at %move[%m.place]
  %word.p = load ptr, ptr %word.pp
  %row.first = i64 %word.pp[1]
  %row.by = i64 %word.pp[2]
  %row.further = mul i64 %n.now, %row.by
  %row = add i64 %row.first, %row.further
  store i64 %row, ptr %word.p
  %m.next = add i64 %m, 1
  br label %moving
counted:
  %c.far = add i64 %c, %by
  %c.counted = select i1 %more, i64 %c.far, i64 %c.next
  br label %jumping
ask:
  %flag.byte = load i8, ptr %flag.p
  %flag = zext i8 %flag.byte to i64
  %jumps = icmp eq i64 %flag, %wanted
  %c.there = add i64 %c, %by
  %c.after = select i1 %jumps, i64 %c.there, i64 %c.next
  %returns = icmp slt i64 %by, 0
  %again = and i1 %jumps, %returns
  br i1 %again, label %back, label %jumping
back:
  %left.p = at %program[6]
  %left = load i64, ptr %left.p
  %left.now = sub i64 %left, 1
  store i64 %left.now, ptr %left.p
  if eq i64 %left.now, 0 then %pause else %jumping
pause:
  store i64 %c.after, ptr %first.p
  ret i64 {PAUSED}
jumping:
  %jumped = phi i64 [%c.after, %ask], [%c.after, %back], [%c.counted, %counted]
  br label %running
choose:
  %trial = ptr %entry.p[3]
  %section = ptr %entry.p[5]
  %several = icmp sgt i64 %threads, 1
  %begins = icmp ne ptr %section, null
  %may.group = and i1 %several, %begins
  br i1 %may.group, label %weigh, label %single
weigh:
  %groups = i64 %section[2]
  %fair = call i1 @torpor_execute_fair(i64 %groups, i64 %threads)
  br i1 %fair, label %group, label %single
group:
  %failure.p = at %section[1]
  %past = i64 %section[5]
  store i64 0, ptr %section
  store i64 -1, ptr %failure.p
  %slots = i64 %section[7]
  %able = call i64 @llvm.smin.i64(i64 %threads, i64 %slots)
  call void %run(ptr %pool, ptr @torpor_execute_groups, ptr %section, i64 %able, i64 1,
                 i64 %helpers)
  %failure = load i64, ptr %failure.p
  if eq i64 %failure, -1 then %following.section else %fail
following.section:
  br label %running
single:
  %is.big = icmp ne ptr %trial, null
  %shared = and i1 %several, %is.big
  br i1 %shared, label %share, label %alone
share:
  %entry = load ptr, ptr %entry.p
  %table = ptr %entry.p[1]
  %total = i64 %entry.p[2]
  %error.p = ptr %entry.p[4]
  %sharing = ptr %pool[{SHARE}]
  call void %sharing(ptr %pool, ptr %entry, ptr %table, i64 %total, i64 %threads, i64 %helpers,
                   ptr %trial)
  if ne ptr %error.p, null then %check else %following
check:
  %error = load i64, ptr %error.p
  if ne i64 %error, 0 then %fail.shared else %following
fail.shared:
  store i64 0, ptr %error.p
  %high = shl i64 %c.next, 32
  %both = or i64 %high, %error
  br label %fail
alone:
  %ran = call i64 @torpor_execute_alone(ptr %command, i64 %c, i64 %c.next)
  if eq i64 %ran, 0 then %following else %fail
following:
  br label %running
fail:
  %found = phi i64 [%failure, %group], [%both, %fail.shared], [%ran, %alone]
  ret i64 %found
done:
  ret i64 0
}}
"""


def executor_text() -> str:
    """The executor's IR."""
    places = {name: value for name, value in globals().items() if isinstance(value, int)}
    return written_out(_TEXT.format(SHARE=worker.SHARE, **places))
