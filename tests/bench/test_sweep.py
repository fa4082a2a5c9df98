"""A constant with other values, in processes of their own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bench import sweep
from torpor.schedule import tile_and_fuse, tiles


def test_a_constant_is_changed_wherever_it_was_imported_to(monkeypatch):
    monkeypatch.setattr(tiles, "PARTS", 5)
    monkeypatch.setattr(tile_and_fuse, "PARTS", 5)
    sweep.change("schedule.tiles.PARTS", 7)
    assert (tiles.PARTS, tile_and_fuse.PARTS) == (7, 7)
    with pytest.raises(AttributeError):
        sweep.change("schedule.tile_groups.NO_SUCH", 7)


def test_each_value_has_a_column(monkeypatch, capsys):
    asked = []

    def pretend(constant, value, workload, threads):
        asked.append(value)
        return [float(value)] * 3

    monkeypatch.setattr(sweep, "asked", pretend)
    assert sweep.main(["a.B", "1,2,4", "memory/sum-4KB"]) == 0
    assert asked == ["1", "2", "4", "4", "2", "1"]
    assert capsys.readouterr().out == "| a.B | 1,2,4 |\n".replace(",", " | ") + (
        "| memory/sum-4KB | 1 s  (1 s ) | 2 s  (2 s ) | 4 s  (4 s ) |\n"
    )


def test_a_child_times_a_workload():
    (seconds,) = {
        len(sweep.asked("schedule.cost.MOVE", value, "memory/sum-4KB", 1)) for value in ("4", "8")
    }
    assert seconds == sweep.ROUNDS


def test_called_without_arguments_it_says_how():
    made = subprocess.run([sys.executable, "-m", "bench.sweep"], capture_output=True, text=True)
    assert made.returncode == 2
    assert "usage" in made.stderr
