"""Floor 9: `profile`, which shows where the time of a program goes, by its lines.

What it knows it has heard from `base/phases.py`.
"""

from torpor.profile.collect import Profile, profile
from torpor.profile.table import Row

__all__ = ["Profile", "Row", "profile"]
