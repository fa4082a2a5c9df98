"""Floor 1: the one node type, its op table, patterns, rewriting, contracts and text."""

from torpor.ir.contract import Contract
from torpor.ir.ops import AxisType, Ops
from torpor.ir.pattern import PatternMatcher, UPat
from torpor.ir.records import (
    BufferSpec,
    CheckSite,
    Opt,
    OptOps,
    ParamArg,
    Program,
    ScheduleItem,
)
from torpor.ir.rewrite import graph_rewrite
from torpor.ir.text import parse, show
from torpor.ir.uop import UOp
from torpor.ir.variable import Variable, expand

__all__ = [
    "AxisType",
    "BufferSpec",
    "CheckSite",
    "Contract",
    "Ops",
    "Opt",
    "OptOps",
    "ParamArg",
    "PatternMatcher",
    "Program",
    "ScheduleItem",
    "UOp",
    "UPat",
    "Variable",
    "expand",
    "graph_rewrite",
    "parse",
    "show",
]
