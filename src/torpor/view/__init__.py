"""Floor 3: the algebra of views: movement operations that move no data."""

import torpor.rules  # noqa: F401 (index expressions are simplified by its rules)
from torpor.view.merge import merge_dims
from torpor.view.movement import map_indices
from torpor.view.normalise import shapetracker_of
from torpor.view.tracker import ShapeTracker
from torpor.view.view import View

__all__ = ["ShapeTracker", "View", "map_indices", "merge_dims", "shapetracker_of"]
