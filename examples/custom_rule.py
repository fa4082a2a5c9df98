"""A rewrite rule and a choice of optimisations of one's own, applied to a kernel.

    python examples/custom_rule.py

The rule turns a product of two powers of two into one power: exp2(a) * exp2(b) = exp2(a + b). It
saves half of the work; torpor does not have it, since it changes where results overflow.
"""

from torpor import Device, Tensor, lower
from torpor.ir import Ops, PatternMatcher, UOp, UPat, graph_rewrite, trace
from torpor.kernel import Opt, OptOps
from torpor.pipeline import program_for


def join_powers(a: UOp, b: UOp) -> UOp:
    """exp2(a) * exp2(b) = exp2(a + b)."""
    return (a + b).alu(Ops.EXP2)


def power(name: str) -> UPat:
    return UPat(Ops.EXP2, src=(UPat.var(name),))


RULES = PatternMatcher([(power("a") * power("b"), join_powers)])

x, y = Tensor.linspace(0, 1, 1024).realize(), Tensor.linspace(1, 2, 1024).realize()
result = x.exp2() * y.exp2()

# the rule, on the expression of the kernel that would run
(item,) = result.schedule()
with trace.recording() as events:
    rewritten = graph_rewrite(item.ast, RULES, name="my rules")
for event in events:
    print(f"{event.stage}: {event.rule}: {event.before.op} became {event.after.op}")
device = Device["CPU"]
before, after = (program_for(ast, device.target) for ast in (item.ast, rewritten))
print(f"operations: {before.ops} before, {after.ops} after")

# run it, and compare with what torpor computes by itself
output, first, second = (node.arg for node in item.buffers)
executable = device.executable(after, device.compiler.compile(after))
executable([output.allocate(), first, second])
with_rule = output.as_buffer().cast("B").cast("f")
largest = max(abs(a - b) / b for a, b in zip(with_rule, result.tolist(), strict=True))
print(f"largest relative difference: {largest:.0e}")

# optimisations: the compiler's choice, none, and one's own
matrix = Tensor.empty(64, 64)
own = [Opt(OptOps.UPCAST, 1, 8), Opt(OptOps.UNROLL, 0, 4)]
for name, opts in (("the compiler's", None), ("none", []), ("my own", own)):
    (program,) = lower(matrix @ matrix, opts=opts)
    chosen = ", ".join(f"{opt.op.name} {opt.axis} {opt.arg}" for opt in program.opts)
    print(f"{name}: {len(program.source.splitlines())} lines of LLVM IR; opts: {chosen or '-'}")
try:
    lower(matrix @ matrix, opts=[Opt(OptOps.UPCAST, 0, 7)])
except ValueError as error:
    print(error)
