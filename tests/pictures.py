"""The pictures in docs/explorer.md, made anew by a Chromium: `python -m tests.pictures`.

A small network is trained, with a line that copies and a number that makes the jit trace again.
"""

import tempfile
from pathlib import Path

from PIL import Image

from tests.chromium import Chromium
from tests.recorded import record
from torpor.explore import Server, read

COLOURS = 128  # of a picture, which is text for the most part
DOCS = Path(__file__).resolve().parents[1] / "docs"
TRAIN = """import torpor
from torpor import Tensor, jit, nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(self.up(self.norm(x)).gelu())


torpor.manual_seed(0)
model = nn.Sequential(Block(128), Block(128), nn.Linear(128, 10))
rule = nn.optim.AdamW(model.parameters(), lr=1e-3)
scale = 1.0


@jit
def step(x, labels):
    rule.zero_grad()
    loss = nn.functional.cross_entropy(model(x * scale), labels)
    loss.backward()
    rule.step()
    return loss


images, labels = Tensor.randn(256, 512), Tensor.randint(0, 10, (512,))
for epoch in range(2):
    torpor.mark(f"epoch {epoch}")
    for start in range(0, 512, 256):
        rows = images[start // 2 : start // 2 + 128].transpose(0, 1).contiguous()
        step(rows[start : start + 256], labels[start : start + 256]).item()
    scale = 0.5
"""


def main() -> None:
    """Record the program, and take the pictures."""
    with tempfile.TemporaryDirectory() as folder, Chromium() as browser:
        script = Path(folder) / "train.py"
        script.write_text(TRAIN)
        server = Server(read(record(script, Path(folder))))
        kernels = server.site.trace.kernels
        product = max(kernels, key=lambda one: (one.places[0].line == 12, one.microseconds))
        copy = next(one for one in kernels if one.reasons == ["contiguous"])
        split = next(n for n, one in enumerate(product.steps) if one.rule == "collect_terms")
        at = f"#kernels/{product.number}"
        pages = {
            "first": ("", "#between li", 760),
            "kernel": (at, "#source code", 720),
            "rewrite": (f"{at}/rewrites/{split}", ".after .node", 760),
            "opts": (f"#kernels/{copy.number}/opts", "#compiled .changes", 760),
            "programs": ("#programs", ".arena .lies", 1000),
            "memory": ("#time", "#roofline .roof", 1900),
            "views": ("views", "[data-cell]", 760),
        }
        for name, (page, sign, high) in pages.items():
            browser.resize(1120, high)
            browser.open(server.address + page)
            if name == "opts":
                browser.fill("#others", "UPCAST 1 4")
                browser.evaluate("document.querySelector('#others').blur()")
            browser.shown(sign)
            browser.evaluate("new Promise((done) => setTimeout(done, 700))")
            path = DOCS / f"explorer-{name}.png"
            browser.screenshot(path)
            Image.open(path).convert("RGB").quantize(COLOURS).save(path, optimize=True)
        server.close()


if __name__ == "__main__":
    main()
