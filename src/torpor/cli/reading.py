"""What the demo's network reads in the user's own pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from torpor.base.errors import ParseError, ShapeError
from torpor.cli.pictures import Picture, as_text
from torpor.cli.training import Trainer
from torpor.nn import state


def load_weights(trainer: Trainer, path: Path) -> None:
    """Give the network what another run has saved; a `ParseError` where that is none of its."""
    try:
        trainer.model.load_state_dict(state.safe_load(path))
    except (ParseError, KeyError, ShapeError) as error:
        why = str(error).splitlines()[0]
        raise ParseError(
            f"{path} does not hold the demo's network (--train makes it anew): {why}"
        ) from None


def show_reading(trainer: Trainer, path: str, picture: Picture, console: Console) -> dict[str, Any]:
    """Show the picture, and what the network takes it for; gives the likeliest digit."""
    logits = trainer.logits(picture.reshape(1, 1, 28, 28))[0].astype(np.float64)
    chances = np.exp(logits - logits.max())
    chances /= chances.sum()
    best = np.argsort(-chances)[:3]
    console.print(as_text([picture]))
    console.print(f"{path}: " + ", ".join(f"{digit} ({chances[digit]:.1%})" for digit in best))
    return {"image": path, "digit": int(best[0]), "chance": float(chances[best[0]])}
