"""A kernel at every stage, from a tensor expression to machine code.

    python examples/kernel_stages.py           the whole way to this machine's code
    python examples/kernel_stages.py metal     as text for another target, which need not be here

`docs/walk.md` explains what is printed.
"""

import sys

from torpor import Device, Tensor, lower
from torpor.ir.text import show, show_lines
from torpor.kernel import Kernel
from torpor.pipeline import program_for


def heading(text: str) -> None:
    print(f"\n--- {text} ".ljust(100, "-"))


def expression() -> Tensor:
    """Put your own here; whatever makes one kernel."""
    x, weight = Tensor.empty(16, 32), Tensor.empty(32)
    return (x * weight).sum(1).relu()


target = sys.argv[1] if len(sys.argv) > 1 else None
(item,) = expression().schedule()
heading(f"stored because: {item.reason}; buffers of {[node.arg.size for node in item.buffers]}")
print(show(item.ast))

if target is not None:
    (program,) = lower(expression(), target=target)
    heading(f"source for {target}")
    print(program.source)
    sys.exit()

device = Device["CPU"]
kernel = Kernel(item.ast, device.target)
heading(f"axes: {[(axis.arg[1].name.lower(), axis.src[0].arg) for axis in kernel.axes]}")
program = program_for(item.ast, device.target)
for opt in program.opts:
    kernel.apply_opt(opt)
    print(f"{opt.op.name} of axis {opt.axis} by {opt.arg}: now {kernel.name}")

heading("the program as a list")
print(show_lines(program.linear))
heading("source")
print(program.source)
heading("machine code")
print(device.compiler.assembly(program))
