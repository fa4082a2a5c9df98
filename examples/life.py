"""Conway's Game of Life: a glider gun shoots, all generations in one `scan`; some seconds.

The picture shows where cells live (black) and how long ago they did: the gliders leave traces.
"""

import argparse

import numpy as np
from PIL import Image

from torpor import Tensor, scan

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=240)
parser.add_argument("--out", default="life.png")
options = parser.parse_args()

GUN = """
........................O...........
......................O.O...........
............OO......OO............OO
...........O...O....OO............OO
OO........O.....O...OO..............
OO........O...O.OO....O.O...........
..........O.....O.......O...........
...........O...O....................
............OO......................
"""


def board_of(text: str, height: int, width: int) -> Tensor:
    """The picture of O and . at the upper left of an empty board."""
    board = Tensor.zeros(height, width, dtype="int32")
    rows = [[int(cell == "O") for cell in line] for line in text.split()]
    board[1 : 1 + len(rows), 1 : 1 + len(rows[0])] = Tensor(rows, dtype="int32")
    return board


def generation(board: Tensor) -> Tensor:
    """The next board, whose edges meet: three neighbours give life, two keep it."""
    around = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]
    neighbours = sum(board.roll(shift, (0, 1)) for shift in around)
    return ((neighbours == 3) | ((neighbours == 2) & (board == 1))).int()


def step(state: tuple[Tensor, Tensor], _: None) -> tuple:
    """The next board, how long each cell has been dead, and how many live."""
    board, age = state
    board = generation(board)
    age = (board == 1).where(0, age + 1)
    return (board, age), board.sum()


start = board_of(GUN, 80, 120)
(board, age), population = scan(step, (start, (start == 1).where(0, 1000)), length=options.steps)
for number, cells in enumerate(population.tolist(), 1):
    if number % 20 == 0 or number == options.steps:
        print(f"generation {number:3}: {cells} cells")

shade = (age == 0).where(0, (200 + 3 * age).clamp(max=255))
cells = Image.fromarray(shade.numpy().astype(np.uint8))
cells.resize((cells.width * 6, cells.height * 6), Image.Resampling.NEAREST).save(options.out)
