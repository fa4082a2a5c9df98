"""Every example runs and shows what it promises."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"


def output_of(name, *arguments):
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def test_every_example_is_known_and_documented():
    known = {"own_network.py", "custom_rule.py", "kernel_stages.py", "product_by_opts.py"}
    assert {path.name for path in EXAMPLES.iterdir() if path.suffix} == known
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert all(f"examples/{name}" in index for name in known)


def test_own_network_learns():
    text = output_of("own_network.py")
    losses = [float(loss) for loss in re.findall(r"loss (\d\.\d+)", text)]
    assert losses == sorted(losses, reverse=True)
    assert float(re.search(r"([\d.]+)% of 2000 others", text)[1]) > 90


def test_custom_rule_applies_and_keeps_the_result():
    text = output_of("custom_rule.py")
    assert "my rules: join_powers: Ops.MUL became Ops.EXP2" in text
    before, after = map(int, re.search(r"operations: (\d+) before, (\d+) after", text).groups())
    assert after < before
    assert float(re.search(r"largest relative difference: (\S+)", text)[1]) < 1e-6
    assert "my own: " in text
    assert "opts: UPCAST 1 8, UNROLL 0 4" in text
    assert "none: " in text
    assert "7 does not divide 64" in text


@pytest.mark.parametrize(("target", "code"), [("metal", "kernel void"), ("wgsl", "@compute")])
def test_kernel_stages_writes_text_for_other_targets(target, code):
    assert code in output_of("kernel_stages.py", target)


def test_kernel_stages_shows_every_stage():
    text = output_of("kernel_stages.py")
    headings = re.findall(r"^--- (.+?) -*$", text, re.MULTILINE)
    names = [heading.split(":")[0] for heading in headings]
    assert names == ["stored because", "axes", "the program as a list", "source", "machine code"]
    assert "Ops.REDUCE" in text
    assert "define void @" in text
    *_, last = re.findall(r"now (\S+)", text)
    assert f"@{last}(" in text, "the last name is that of the kernel"


def test_a_product_gets_faster_opt_by_opt():
    text = output_of("product_by_opts.py", "96")
    assert "GFLOP/s" in text.splitlines()[0]
    rates = [float(line.split()[-1]) for line in text.splitlines()[1:]]
    assert len(rates) > 3
    assert max(rates) > 4 * rates[0]  # vectors alone give that
