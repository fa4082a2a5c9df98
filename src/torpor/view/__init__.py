"""Floor 3: a small room for inspection: how memory is walked through, as shapes and strides.

The compiler's route does not come here. It moves indices through each movement by itself
(`rules/movement.py`) and keeps what comes out as one affine position (`rules/affine.py`). Views say
the same in the words that people use: for `is_contiguous`, for the explorer's page `/views`, and
for whoever imports `ShapeTracker`.
"""

import torpor.rules  # noqa: F401 (index expressions are simplified by its rules)
from torpor.view.merge import merge_dims
from torpor.view.normalise import shapetracker_of
from torpor.view.tracker import ShapeTracker
from torpor.view.view import View

__all__ = ["ShapeTracker", "View", "merge_dims", "shapetracker_of"]
