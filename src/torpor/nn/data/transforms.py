"""Changes of pictures x[..., channel, height, width], with torchvision's names, as kernels: a batch
is changed at once, and what is random is drawn for each picture by itself.
"""

from torpor.nn.data import colours, pictures
from torpor.nn.data.colours import *  # noqa: F403
from torpor.nn.data.pictures import *  # noqa: F403

__all__ = [*colours.__all__, *pictures.__all__]
