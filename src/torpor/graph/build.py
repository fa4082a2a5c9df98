"""Checked builders of graph nodes, all in one place: the vocabulary of `Tensor`.

Each infers the shape and dtype of what it makes, and raises at the call: a `ShapeError` or
`DTypeError` that names the operation, its operands' dtypes and shapes, what was expected and what
came. Building takes time that does not depend on the size of the graph.
"""

from torpor.graph.elementwise import bitcast as bitcast
from torpor.graph.elementwise import cast as cast
from torpor.graph.elementwise import check as check
from torpor.graph.elementwise import choose_rarely as choose_rarely
from torpor.graph.elementwise import constant as constant
from torpor.graph.elementwise import elementwise as elementwise
from torpor.graph.indexed import gather as gather
from torpor.graph.indexed import prior as prior
from torpor.graph.indexed import scatter as scatter
from torpor.graph.movement import broadcast_shapes as broadcast_shapes
from torpor.graph.movement import broadcast_to as broadcast_to
from torpor.graph.movement import expand as expand
from torpor.graph.movement import flip as flip
from torpor.graph.movement import pad as pad
from torpor.graph.movement import permute as permute
from torpor.graph.movement import reshape as reshape
from torpor.graph.movement import shrink as shrink
from torpor.graph.polyphase import overlap_add as overlap_add
from torpor.graph.polyphase import windows as windows
from torpor.graph.recompute import checkpoint as checkpoint
from torpor.graph.reduce import again as again
from torpor.graph.reduce import alias as alias
from torpor.graph.reduce import contiguous as contiguous
from torpor.graph.reduce import copy_to as copy_to
from torpor.graph.reduce import detach as detach
from torpor.graph.reduce import function as function
from torpor.graph.reduce import identity as identity
from torpor.graph.reduce import leaf as leaf
from torpor.graph.reduce import over as over
from torpor.graph.reduce import reduce as reduce
from torpor.graph.scan import latest as latest
from torpor.graph.scan import scan as scan
from torpor.graph.window import shear as shear
from torpor.graph.window import stride_axis as stride_axis
from torpor.graph.window import window as window
