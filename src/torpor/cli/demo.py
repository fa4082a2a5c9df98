"""`torpor demo`: trains, tests, explains what ran, and leaves weights and pictures behind."""

from __future__ import annotations

import argparse
import json
import shlex
import tempfile
import time
from itertools import compress
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from torpor.base.site import decode
from torpor.cli.peak import measure_copy, measure_flops
from torpor.cli.pictures import as_text, load_picture, save_sheet
from torpor.cli.race import import_torch, race_torch
from torpor.cli.reading import load_weights, show_reading
from torpor.cli.screen import screen
from torpor.cli.training import Trainer
from torpor.device import Device
from torpor.device.machine import cores, processor_name
from torpor.nn import state
from torpor.pipeline import KernelRun, Measurement, measuring
from torpor.tensor import Tensor

OUT: Final = "torpor-demo"  # the folder, where no other is given
WEIGHTS: Final = "digits.safetensors"  # in the folder --out
GOAL: Final = 0.975  # share of the 2,000 below which the demo has failed
SHOWN: Final = 8  # kernels in the table, misread digits in the terminal
NARROW: Final = 60  # columns below which lines of the program have none beside rates
WIDE: Final = 100  # columns from which names of kernels have room, too
LINE_EVERY: Final = 25  # steps between lines where there is no terminal
PROFILE_STEPS: Final = 3


def run_demo(arguments: argparse.Namespace) -> int:
    """The whole demo; the exit status."""
    console = screen(stderr=arguments.json)  # with --json only JSON is on standard output
    target = Device["CPU"].target
    console.print(
        f"torpor on {processor_name()}, {cores()} cores, "
        f"{target.vector_bytes * 8}-bit vectors; no compiler needed"
    )
    pictures = [(path, load_picture(path)) for path in arguments.image]
    folder = Path(arguments.out or OUT)
    if pictures and not wants_training(arguments) and (folder / WEIGHTS).exists():
        results: dict[str, Any] = {"weights": str(folder / WEIGHTS)}
        trainer = new_trainer(arguments)
        load_weights(trainer, folder / WEIGHTS)
        console.print(f"reading with the weights in {folder / WEIGHTS}; --train makes new ones")
    else:
        results, trainer = train_and_test(arguments, folder, console)
    read = [show_reading(trainer, path, picture, console) for path, picture in pictures]
    if arguments.against:
        results |= race(new_trainer(arguments), results["seconds"], console)
    if "accuracy" in results:
        say_next(folder, console)
    if arguments.json:
        print(json.dumps(results | {"read": read}))
    return 0 if results.get("accuracy", GOAL) >= GOAL else 1


def wants_training(arguments: argparse.Namespace) -> bool:
    """Whether an option asks for training, in whatever way."""
    ways = (arguments.epochs, arguments.images, arguments.seed, arguments.against)
    return bool(arguments.train) or any(way is not None for way in ways)


def new_trainer(arguments: argparse.Namespace) -> Trainer:
    """A trainer at its start: what is profiled or raced must not touch the one that is tested."""
    given = {"seed": arguments.seed, "epochs": arguments.epochs, "images": arguments.images}
    return Trainer(**{name: value for name, value in given.items() if value is not None})


def train_and_test(
    arguments: argparse.Namespace, folder: Path, console: Console
) -> tuple[dict[str, Any], Trainer]:
    """Train, test, explain and save: what is known then, and the trainer."""
    make_writable(folder)
    if arguments.against:
        import_torch()
    trainer = new_trainer(arguments)
    with measuring() as measured:
        seconds, first = train(trainer, console)
    accuracy, predicted = trainer.test()
    console.print(f"trained in {seconds:.1f} s, first loss after {first:.1f} s")
    console.print(f"test accuracy: {accuracy:.4f}", style="bold")
    results = {"accuracy": accuracy, "seconds": seconds, "first_loss_seconds": first}
    results |= explain(new_trainer(arguments), measured, console)
    state.safe_save(trainer.model.state_dict(), folder / WEIGHTS)
    show_misread(trainer, predicted, folder, console)
    return results, trainer


def make_writable(folder: Path) -> None:
    """Make the folder, and an `OSError` where nothing can be written to it."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder) as probe:
        probe.write(b"something")


def train(trainer: Trainer, console: Console) -> tuple[float, float]:
    """Train with live progress: seconds in all, and until the first loss was known."""
    started = time.perf_counter()
    first = 0.0
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("compiling", total=trainer.epochs * trainer.steps)
        for at in trainer.train():
            first = first or time.perf_counter() - started
            text = (
                f"epoch {at.epoch + 1}/{trainer.epochs}  loss {at.loss:.4f}  "
                f"accuracy {at.accuracy:.4f}  {at.images_per_second:,.0f} images/s"
            )
            bar.update(task, advance=1, description=text)
            if not console.is_terminal and at.step % LINE_EVERY == 0:
                line = f"step {at.step + 1:4d}/{at.steps}  {text}"
                console.print(line)
    return time.perf_counter() - started, first


def explain(trainer: Trainer, measured: Measurement, console: Console) -> dict[str, Any]:
    """What ran: operations and kernels, compile time, the costliest kernels."""
    compiling = sum(seconds for _, seconds, _ in measured.compiles)
    images, labels = map(Tensor, next(trainer.batches()))
    trainer.plain_step(images, labels)  # makes the optimiser's state
    with measuring() as profile:
        for _ in range(PROFILE_STEPS):
            trainer.plain_step(images, labels)
    kernels = len(profile.runs) // PROFILE_STEPS
    operations = profile.operations // PROFILE_STEPS
    console.print(
        f"a training step: {operations} tensor operations became {kernels} kernels; compiling "
        f"{len(measured.compiles)} kernels took {compiling:.2f} s"
    )
    console.print(costliest(profile, console), soft_wrap=False)
    return {"operations": operations, "kernels": kernels, "compile_seconds": compiling}


def costliest(profile: Measurement, console: Console) -> Table:
    """The kernels that took most of a step, against what the machine was just measured to do at
    most: multiply-adds in registers, or copying as many bytes, whichever is nearer. On a busy
    machine a kernel may be quicker than what was measured; then the peak is what the kernel did.
    """
    shown = slowest(profile)[:SHOWN]
    flops = max(measure_flops(), *(arithmetic(run) / seconds for run, seconds in shown))
    table = Table(title=f"costliest kernels (peak: {flops / 1e9:.0f} GFLOP/s)")
    names = ("    us", "GFLOP/s", " GB/s", "% of peak")
    shows = [console.width >= NARROW or name not in ("GFLOP/s", " GB/s") for name in names]
    for name in compress(names, shows):
        table.add_column(name, justify="right", min_width=len(name), no_wrap=True)
    table.add_column("your line", overflow="fold")
    if console.width >= WIDE:
        table.add_column("kernel", overflow="fold")
    for run, seconds in shown:
        program = run.program
        assert program is not None  # copies are not among them
        rate, traffic = arithmetic(run) / seconds, int(program.bytes) / seconds
        # Rounded up to a power of two, so that few copies are measured.
        copied = max(traffic, measure_copy(1 << int(program.bytes).bit_length()))
        where = decode(run.item.origins[0]) if run.item.origins else None
        line = f"{Path(where.file).name}:{where.line} {where.text}" if where else ""
        figures = (
            seconds * 1e6,
            rate / 1e9,
            traffic / 1e9,
            100 * max(rate / flops, traffic / copied),
        )
        cells = [
            f"{figure:.{digits}f}" for figure, digits in zip(figures, (0, 1, 1, 0), strict=True)
        ]
        named = [program.name] if console.width >= WIDE else []
        table.add_row(*compress(cells, shows), line, *named)
    return table


def arithmetic(run: KernelRun) -> int:
    """Arithmetic operations of one launch."""
    return int(run.program.ops) if run.program is not None else 0


def slowest(profile: Measurement) -> list[tuple[KernelRun, float]]:
    """A run of each kernel and the seconds it takes, what costs a step most first."""
    seconds: dict[str, list[float]] = {}
    runs: dict[str, KernelRun] = {}
    for run in profile.runs:
        if run.program is not None:
            seconds.setdefault(run.program.name, []).append(run.seconds)
            runs[run.program.name] = run
    ranked = sorted(seconds, key=lambda name: -sum(seconds[name]))
    return [(runs[name], sum(seconds[name]) / len(seconds[name])) for name in ranked]


def show_misread(trainer: Trainer, predicted: Any, folder: Path, console: Console) -> None:
    """Misread digits, in the terminal and as a PNG."""
    wrong = np.nonzero(predicted != trainer.test_labels)[0]
    if len(wrong) == 0:
        console.print("every digit was read right")
        return
    pictures = [trainer.test_images[i, 0] for i in wrong]
    path = folder / "misread.png"
    save_sheet(pictures, path)
    width = max(1, min(4, (console.width + 2) // 30))
    labels = [f"{trainer.test_labels[i]} read as {predicted[i]}" for i in wrong]
    console.print(f"{len(wrong)} misread digits, all in {path}; some of them:")
    console.print("  ".join(label.ljust(28) for label in labels[:width]))
    console.print(as_text(pictures[:width]))


def race(trainer: Trainer, seconds: float, console: Console) -> dict[str, float]:
    """Time a peer on the same work."""
    console.print("now torch, on the same data ...")
    theirs, accuracy = race_torch(trainer)
    console.print(
        f"torch: {theirs:.1f} s, test accuracy {accuracy:.4f}; torpor: {seconds:.1f} s "
        f"({theirs / seconds:.2f} times as fast)"
    )
    return {"torch_seconds": theirs, "torch_accuracy": accuracy}


def say_next(folder: Path, console: Console) -> None:
    """Three things to do next."""
    there = "" if str(folder) == OUT else f" --out {shlex.quote(str(folder))}"
    console.print(
        f"weights are in {folder / WEIGHTS}. Next:\n"
        f"  torpor demo --image PICTURE.png{there}     read a digit of your own\n"
        "  DEBUG=4 torpor demo --epochs 1      see every kernel's source\n"
        "  torpor info                         devices, compiler, caches"
    )
