"""`torpor demo`: what it prints and leaves behind, and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from PIL import Image

from torpor.cli import demo, main, pictures
from torpor.cli.training import Trainer, as_input
from torpor.nn.data import load_digits
from torpor.nn.state import safe_load, safe_save
from torpor.tensor import Tensor

SHORT = ("demo", "--epochs", "1", "--images", "640")
WAIT = 60  # seconds; a machine may be busy


def draw_seven(path):
    """A 7, dark on light, off the centre of a picture of another size."""
    canvas = np.full((60, 80), 230, np.uint8)
    canvas[10:14, 30:56] = 20
    for step in range(34):
        column = 54 - step // 2
        canvas[12 + step, column - 4 : column] = 20
    Image.fromarray(canvas).save(path)


def short_run(folder):
    """A demo on a tenth of the digits: exit status, and with --json both streams."""
    draw_seven(folder / "seven.png")
    arguments = ["--json", "--image", str(folder / "seven.png"), "--out", str(folder / "out")]
    command = [sys.executable, "-m", "torpor", *SHORT, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=WAIT, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def run(folder):
    return short_run(folder)


def test_too_few_right_digits_are_exit_status_1(run):
    assert json.loads(run.stdout)["accuracy"] < demo.GOAL
    assert run.returncode == 1
    assert "Traceback" not in run.stderr


def test_what_is_told_on_the_way(run):
    lines = run.stderr.splitlines()
    assert re.match(r"torpor on .*, \d+ cores, \d+-bit vectors; no compiler needed", lines[0])
    assert re.match(r"step +1/10  epoch 1/1  loss \d\.\d{4}  accuracy [01]\.\d{4} ", lines[1])
    results = json.loads(run.stdout)
    assert f"test accuracy: {results['accuracy']:.4f}" in lines
    text = " ".join(run.stderr.split())
    counted = f"{results['operations']} tensor operations became {results['kernels']} kernels"
    assert f"a training step: {counted}; compiling" in text
    assert results["kernels"] < results["operations"] / 5
    assert "misread digits, all in" in text
    assert len(re.findall("^  (torpor|DEBUG=4 torpor) ", run.stderr, re.MULTILINE)) == 3
    assert re.search("^  torpor demo --image PICTURE.png --out .*/out ", run.stderr, re.MULTILINE)


def test_off_a_terminal_lines_are_plain(run):
    assert "\x1b" not in run.stderr
    assert "\r" not in run.stderr


def test_costliest_kernels_name_lines_and_stay_below_the_peak(run):
    lines = [line for line in run.stderr.splitlines() if re.match("[┏┡┃│└]", line)]
    assert max(map(len, lines)) <= 80
    rows = [line.split("│") for line in lines if line.startswith("│")]
    rows = [row for row in rows if row[1].strip()]  # others go on with the line above
    assert len(rows) == demo.SHOWN
    for _, microseconds, rate, traffic, share, line, *_ in rows:
        assert float(microseconds) > 0
        assert float(rate) + float(traffic) > 0
        assert 0 <= float(share) <= 100
        assert re.match(r" \w+\.py:\d+ ", line)
    assert re.match(r" models\.py:\d+ ", rows[0][5]), "the network, not the optimiser"


def test_misread_digits_are_drawn(run, folder):
    with Image.open(folder / "out" / "misread.png") as sheet:
        width, height = sheet.size
        assert width == 10 * pictures.TILE * pictures.SCALE
    wrong = round((1 - json.loads(run.stdout)["accuracy"]) * 2000)
    assert height == -(-wrong // 10) * pictures.TILE * pictures.SCALE
    assert re.search(r"^\d read as \d ", run.stderr, re.MULTILINE)


def test_ones_own_image_is_read(run, folder):
    text = " ".join(run.stderr.split())
    guesses = re.search(r"seven\.png: ?(\d) \((\d+\.\d)%\), (\d) \(", text)
    assert guesses, text
    assert guesses[1] != guesses[3]


LONG = "A processor [with brackets] :bug: " + 20 * "and a long name "


def read_again(folder, *more):
    """The demo in the same folder, given a picture: exit status."""
    arguments = ["demo", "--image", str(folder / "seven.png"), "--out", str(folder / "out"), *more]
    return main(arguments)


def test_saved_weights_are_used_again(run, folder, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(demo, "processor_name", lambda: LONG)
    assert read_again(folder) == 0
    shown = capsys.readouterr().out
    weights = folder / "out" / "digits.safetensors"
    first, second, *_ = shown.splitlines()
    assert first.startswith(f"torpor on {LONG}, "), "neither cut, broken nor read as markup"
    assert second == f"reading with the weights in {weights}; --train makes new ones"
    assert "accuracy" not in shown
    assert read_again(folder, "--json") == 0
    captured = capsys.readouterr()
    assert captured.err == shown
    found = json.loads(captured.out)
    assert found["weights"] == str(weights)
    assert found["read"] == json.loads(run.stdout)["read"]
    (reading,) = found["read"]
    assert f"seven.png: {reading['digit']} ({reading['chance']:.1%}), " in shown


@pytest.mark.parametrize("option", [(), ("--epochs", "1"), ("--seed", "0"), ("--against", "torch")])
def test_who_asks_for_training_gets_it(option, run, folder, monkeypatch):
    class Training(BaseException):
        pass

    def train(trainer, console):
        raise Training

    monkeypatch.setattr(demo, "train", train)
    monkeypatch.setattr(demo, "import_torch", lambda: None)
    with pytest.raises(Training):
        read_again(folder, *(option or ("--train",)))


@pytest.mark.parametrize("damage", ["no weights", "another network"])
def test_weights_that_do_not_fit_are_refused(damage, run, folder, tmp_path, capsys):
    path = tmp_path / "digits.safetensors"
    if damage == "no weights":
        path.write_bytes(b"no weights")
    else:
        safe_save({"weight": Tensor([1.0])}, path)
    assert main(["demo", "--image", str(folder / "seven.png"), "--out", str(tmp_path)]) == 1
    shown = capsys.readouterr()
    assert f"{path} does not hold the demo's network (--train makes it anew)" in shown.err
    assert len(shown.err.splitlines()) == 1


@pytest.mark.parametrize("place", ["file", "file/inside"])
def test_where_nothing_can_be_written_is_known_before_training(place, tmp_path, capsys):
    (tmp_path / "file").write_text("kept")
    assert main([*SHORT, "--out", str(tmp_path / place)]) == 1
    shown = capsys.readouterr()
    assert str(tmp_path / "file") in shown.err
    assert "loss" not in shown.out
    assert (tmp_path / "file").read_text() == "kept"


def logits(weights, images):
    """The network in NumPy: two convolutions with ReLU and pooling, and one linear layer."""
    x = images
    for name in ("first", "second"):
        windows = sliding_window_view(x, (5, 5), (2, 3))
        x = np.einsum("nchwij,ocij->nohw", windows, weights[f"{name}.weight"], optimize=True)
        x = np.maximum(x + weights[f"{name}.bias"][:, None, None], 0)
        n, c, height, width = x.shape
        x = x.reshape(n, c, height // 2, 2, width // 2, 2).max((3, 5))
    return x.reshape(len(x), -1) @ weights["last.weight"].T + weights["last.bias"]


def test_the_saved_weights_have_the_printed_accuracy(run, folder):
    saved = safe_load(folder / "out" / "digits.safetensors")
    weights = {name: tensor.numpy() for name, tensor in saved.items()}
    _, _, images, labels = load_digits()
    found = np.concatenate([logits(weights, part) for part in np.split(as_input(images), 8)])
    accuracy = (found.argmax(1) == labels).mean()
    assert accuracy == pytest.approx(json.loads(run.stdout)["accuracy"], abs=1e-9)


def test_enough_right_digits_are_exit_status_0(run, tmp_path, monkeypatch, capsys):
    accuracy = json.loads(run.stdout)["accuracy"]
    monkeypatch.setattr(demo, "GOAL", accuracy)  # what the same seed reaches again
    assert main([*SHORT, "--json", "--out", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] == accuracy


def test_a_picture_that_cannot_be_read_ends_it_before_training(tmp_path, capsys):
    path = tmp_path / "no.png"
    path.write_text("not a picture")
    assert main([*SHORT, "--image", str(path), "--out", str(tmp_path)]) == 1
    shown = capsys.readouterr()
    assert "is not a picture that can be read" in shown.err
    assert "loss" not in shown.out


def test_against_a_peer_that_is_not_installed(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert main([*SHORT, "--against", "torch", "--out", str(tmp_path)]) == 1
    shown = capsys.readouterr()
    assert "torch is not installed" in shown.err
    assert "loss" not in shown.out


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT for another process there")
def test_ctrl_c_ends_it_cleanly(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "torpor", "demo", "--epochs", "500", "--out", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    for line in process.stdout:
        if line.startswith("step"):
            break
    process.send_signal(signal.SIGINT)
    shown, complaint = process.communicate(timeout=WAIT)
    assert process.returncode == 130
    assert complaint.split() == ["interrupted"]
    assert "test accuracy" not in shown


def test_the_race_has_the_same_batches():
    ours, theirs = Trainer(3, 2, 192), Trainer(3, 2, 192)
    for _ in range(2):
        for (x, labels), (y, others) in zip(ours.batches(), theirs.batches(), strict=True):
            assert np.array_equal(x, y)
            assert np.array_equal(labels, others)
