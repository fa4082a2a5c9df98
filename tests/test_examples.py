"""Every example runs and shows what it promises."""

import math
import re
import runpy
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import torpor
from torpor import Tensor, dtypes

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"


def output_of(name, *arguments):
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


INSIDE = {"own_network.py", "custom_rule.py", "kernel_stages.py", "product_by_opts.py"}
PICTURED = {
    "regression", "character_gpt", "vae", "lstm", "k_means", "life", "fourier_filter", "ode",
    "gaussian_process", "resnet",
}  # fmt: skip


def test_every_example_is_known_and_documented():
    pictured = {f"{name}.py" for name in PICTURED}
    assert {path.name for path in EXAMPLES.iterdir() if path.suffix} == INSIDE | pictured
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert all(f"examples/{name}" in index for name in INSIDE)
    page = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\]\(\.\./examples/(\w+)\.py\)", page)) == PICTURED
    assert set(re.findall(r"!\[.+\]\(pictures/(\w+)\.png\)", page)) == PICTURED


def test_pictures_are_small():
    files = list((ROOT / "docs" / "pictures").iterdir())
    assert {path.stem for path in files} == PICTURED
    assert sum(path.stat().st_size for path in files) < 2**20


def test_examples_fit_on_a_page():
    lengths = {p.name: len(p.read_text("utf-8").splitlines()) for p in EXAMPLES.glob("*.py")}
    assert {name: count for name, count in lengths.items() if count > 120} == {}


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


# --- those with a picture: run here, with few steps, and what they leave behind is looked at ------
@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs an example by its name and arguments: its variables, after a look at its picture."""
    monkeypatch.setenv("MPLBACKEND", "Agg")
    places = iter(range(10))

    def ran(name, *arguments):
        picture = tmp_path / f"{next(places)}.png"
        given = [str(EXAMPLES / f"{name}.py"), "--out", str(picture), *map(str, arguments)]
        monkeypatch.setattr(sys, "argv", given)
        left = runpy.run_path(given[0], run_name="__main__")
        assert capsys.readouterr().out.strip()
        with Image.open(picture) as image:
            assert len(image.convert("L").getcolors()) > 2
        return left

    before = torpor.get_default_dtype()
    yield ran
    torpor.set_default_dtype(before)


def test_regression_fits_the_points(run):
    losses = run("regression", "--steps", 200)["losses"]
    assert losses[-1] < losses[0] / 5


def test_gpt_learns_and_writes_characters_of_its_alphabet(run, tmp_path):
    (tmp_path / "text").write_text("to be, or not to be: that is it. " * 40, encoding="utf-8")
    left = run("character_gpt", "--steps", 20, "--length", 30, "--text", tmp_path / "text")
    assert left["losses"][-1] < left["losses"][0] * 0.7
    assert len(left["sample"]) == 30 + left["CONTEXT"]
    assert set(left["sample"]) <= set(left["alphabet"]) == set("to be, or not to be: that is it. ")


def test_vae_draws_numbers_better_and_better(run):
    left = run("vae", "--epochs", 4, "--images", 1000)
    assert left["losses"][-1] < left["losses"][0] * 0.7
    assert left["tiles"].min().item() >= 0 and left["tiles"].max().item() <= 1


def test_lstm_learns_and_goes_on(run):
    left = run("lstm", "--steps", 60)
    assert left["losses"][-1] < left["losses"][0] / 10
    dreamt, truth = left["dreamt"].numpy(), left["truth"].numpy()[100:]
    assert np.abs(dreamt[:5] - truth[:5]).max() < 0.5
    value, state = left["model"](left["truth"][:100].reshape(1, -1, 1))
    value = value[:, -1:]
    for number in range(5):  # step by step
        assert abs(value.item() - dreamt[number]) < 1e-4
        value, state = left["model"](value, state)


def test_k_means_comes_nearer_at_each_round(run):
    left = run("k_means", "--rounds", 6, "--images", 600)
    assert all(later < before for before, later in pairwise(left["inertia"]))
    images, centres = left["images"].numpy(), left["centres"].numpy()
    distances = ((images[:, None] - centres[None]) ** 2).sum(-1).min(1)
    assert distances.mean() < left["inertia"][-1]


def test_a_glider_of_life_moves_and_the_gun_shoots(run):
    left = run("life", "--steps", 60)
    glider = left["board_of"](".O.\n..O\nOOO", 12, 9)
    moved = glider
    for _ in range(4):
        moved = left["generation"](moved)
    assert moved.tolist() == np.roll(glider.numpy(), (1, 1), (0, 1)).tolist()
    gun, after = left["start"].numpy(), left["board"].numpy()
    assert (after[:10, :40] == gun[:10, :40]).all(), "a gun's period is 30"
    assert after.sum() == gun.sum() + 2 * 5, "two gliders"
    assert left["population"].tolist()[-1] == after.sum()


def test_the_filter_takes_out_the_hum_and_nothing_else(run):
    left = run("fourier_filter")
    assert left["frequency"][~left["kept"]].tolist() == [50.0, 150.0, 250.0]
    tune, heard, clean = (left[name].numpy() for name in ("tune", "heard", "clean"))
    assert np.abs(clean - tune).mean() < np.abs(heard - tune).mean() / 5
    spectrum = np.abs(np.fft.rfft(clean))
    assert spectrum[[100, 300, 500]].max() < 1e-2


def test_the_equation_is_solved_to_fourth_order_and_its_damping_found(run):
    left = run("ode", "--steps", 200)
    coarse, middle, fine = left["errors"].values()
    assert fine < 1e-5 and coarse / middle > 14 and middle / fine > 14
    assert abs(left["damping"].item() - 0.1) < 1e-3
    time = np.arange(1, 6) * 4.0  # characteristic roots -0.1 ± i √0.99
    root = complex(-0.1, math.sqrt(0.99))
    wanted = (-root.conjugate() / (2j * root.imag) * np.exp(root * time)).real * 2
    np.testing.assert_allclose(left["closed_form"](0.1, 5).numpy(), wanted, atol=1e-12)


def test_the_gaussian_process_becomes_more_likely(run):
    left = run("gaussian_process", "--steps", 25)
    assert left["likelihoods"][-1] > left["likelihoods"][0] + 20
    x, y = left["x"].numpy(), left["y"].numpy()
    assert left["x"].dtype is dtypes.float64
    length, deviation, noise = 3.0, 1.0, 0.5  # with which it begins
    apart = (x[:, None] - x[None]) / length
    covariance = deviation**2 * np.exp(-(apart**2) / 2) + noise**2 * np.eye(len(x))
    _, logarithm = np.linalg.slogdet(covariance)
    half = (y @ np.linalg.solve(covariance, y) + logarithm + len(x) * math.log(2 * math.pi)) / 2
    assert left["likelihoods"][0] == pytest.approx(-half, rel=1e-9)


def test_a_resumed_network_is_the_uninterrupted_one_to_the_bit(run, tmp_path):
    few = "--epochs", 2, "--images", 400, "--width", 2, "--save"
    whole = run("resnet", *few, tmp_path / "whole.pt")
    run("resnet", *few, tmp_path / "part.pt", "--stop", 1)
    resumed = run("resnet", *few, tmp_path / "end.pt", "--resume", tmp_path / "part.pt")
    assert resumed["done"] == 1
    assert resumed["history"] == whole["history"]
    assert len(whole["history"]["loss"]) == 8
    one, other = (torpor.load(tmp_path / name) for name in ("whole.pt", "end.pt"))
    assert flat(one) == flat(other)


def flat(value):
    """Bits of all tensors of a tree, and all else as it is."""
    if isinstance(value, dict):
        return {key: flat(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [flat(part) for part in value]
    return value.numpy().tobytes() if isinstance(value, Tensor) else value
