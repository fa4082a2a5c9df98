"""Scripts that are run and recorded."""

import os
import subprocess
import sys

FUSION = """from torpor import Tensor
a = Tensor.empty(4, 4)
b = a + 4
c = b.contiguous()
d = c + 3
d.realize()
"""

# Its second kernel would be one with the first, if that were not asked for.
EARLY = """from torpor import Tensor
x = Tensor([0.5] * 4096).realize()
y = x + 1
y.realize()
z = (y * 2).realize()
"""

# A compiler in which a rule is wrong, at work.
BROKEN = """from torpor import Tensor
from torpor.rules import division
def wrong(node):
    return node.const(node.dtype, 0) if _divisor(node) == 1 else None
division.divide_by_one.__wrapped__.__code__ = wrong.__code__
x = Tensor(list(range(6))).realize()
assert (x.reshape(3, 2).permute(1, 0).reshape(6) * 10).tolist() != [0, 20, 40, 10, 30, 50]
"""


def record(script, folder, status=0, **names):
    """Run a script with VIZ=file, which ends with this status; the trace's path."""
    settings = {"TORPOR_VIZ": "file", "TORPOR_CACHE_DIR": str(folder)}
    environment = {**os.environ, **settings, **names}
    command = [sys.executable, str(script)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
    assert done.returncode == status, done.stderr
    (path,) = (folder / "traces").iterdir()
    return path


JITTED = """import torpor
from torpor import Tensor, jit
scale = 2.0
@jit
def step(x, n):
    return ((x * scale + n).contiguous() * 3).contiguous() + 1
x = Tensor.empty(64, 64)
for epoch in range(2):
    torpor.mark(f"epoch {epoch}")
    scale += epoch
    step(x, 1.0).realize()
"""
