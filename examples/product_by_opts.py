"""How a matrix product becomes fast, opt by opt.

    python examples/product_by_opts.py [SIZE]

Applies the opts that the compiler chooses for a product of two matrices one after the other, and
times the kernel after each of them, by one thread.
"""

import sys
import time

from torpor import Context, Device, Tensor
from torpor.device import Executable
from torpor.kernel import OptOps
from torpor.pipeline import program_for

SECONDS = 0.3  # to spend on each kernel

size = int(sys.argv[1]) if len(sys.argv) > 1 else 512
left, right = Tensor.rand(size, size).realize(), Tensor.rand(size, size).realize()
product = left @ right
(item,) = product.schedule()
device = Device["CPU"]
output, *inputs = (node.arg for node in item.buffers)
buffers = [output.allocate(), *inputs]


def best_time(executable: Executable) -> float:
    """Seconds of the quickest run."""
    best, ends = float("inf"), time.perf_counter() + SECONDS
    while time.perf_counter() < ends:
        started = time.perf_counter()
        executable(buffers)
        best = min(best, time.perf_counter() - started)
    return best


chosen = program_for(item.ast, device.target).opts
print(f"{'':>14}  GFLOP/s")
with Context(THREADS=1):
    for count, opt in enumerate((None, *chosen)):
        if opt and opt.op is OptOps.THREAD:
            continue  # shares rounds among threads, of which there is one here
        program = program_for(item.ast, device.target, list(chosen[:count]))
        seconds = best_time(device.executable(program, device.compiler.compile(program)))
        name = f"{opt.op.name} {opt.axis} {opt.arg}" if opt else "no opts"
        print(f"{name:>14}  {2 * size**3 / seconds / 1e9:7.1f}", flush=True)
