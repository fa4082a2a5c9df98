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


def record(script, folder, **names):
    """Run a script with VIZ=file; the trace's path."""
    settings = {"TORPOR_VIZ": "file", "TORPOR_CACHE_DIR": str(folder)}
    environment = {**os.environ, **settings, **names}
    command = [sys.executable, str(script)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
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
