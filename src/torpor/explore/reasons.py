"""What the schedule's reasons mean to who wrote the program, and what can be done."""

from __future__ import annotations

from typing import Final

SAYS: Final = {
    "output": "the program asks for this value",
    "held by another tensor": "another tensor has this value in its memory already; it is "
    "copied, so that either can be changed without the other",
    "contiguous": "the program asks for it to be stored, by contiguous(); without that call it "
    "would be computed inside the kernels that read it",
    "kernel size": "the kernel that reads it would have more steps than KERNEL_SIZE",
    "parameter limit": "the kernel would have more parameters than the device takes",
    "used by several kernels": "several kernels read it, and to compute it in each costs more than "
    "to store it once",
    "used at several indices": "its reader needs it at several places at once, and it is a "
    "reduction, which runs once",
    "used at many indices": "its reader needs it at so many places that it would be computed many "
    "times",
    "recompute": "its reader would compute the same elements again and again",
    "sum of a product": "it is a product that is summed again; inside of that sum its tiles would "
    "be narrow",
    "nested reduction": "it is a reduction inside the loop of another, and would run anew for each "
    "of its steps",
    "beside a product": "a matrix product's kernel has no other loops beside its tiles",
    "product beside many streams": "a matrix product's tiles would meet too many other large "
    "values in one kernel",
    "product in an outer loop": "a matrix product has tiles of its own, and no other loops around",
    "loops do not nest": "its loops and those of another reduction in the kernel do not fit inside "
    "each other",
    "too few rows to keep the cores busy": "inside its reader it would run on few cores only",
    "checked first": "its values are checked before anything is computed with them",
    "long reduction": "a long reduction with few results is made in two steps, so that cores share "
    "it",
    "parts of a sum": "a long sum is cut into parts that cores share",
    "order of use": "it is copied once, in the order in which its reader goes through it",
    "carried on": "a loop goes on with it",
    "loop": "it is what a loop computes at each step",
    "copy": "it goes to another device",
    "host": "the host computes it, by LAPACK",
    "copied to another device": "a copy takes what is stored",
    "indexed by a tensor": "its reader picks elements of it, at places that are known when it runs",
    "awaited by what is computed again": "what is computed anew for the gradient waits for it, so "
    "that its memory is not taken before",
    "after": "it takes the value of something else once that is there",
    "scan": "it is what a loop computes at each step",
    "gather": "its elements are picked by an index",
    "scatter": "values are written at places that are known when it runs",
}
READ_BY: Final = "read by a "  # scan, scatter, loop, kernel of the user, call of the host


def says(reason: str) -> str:
    """A sentence about a reason; empty where there is none."""
    if reason.startswith(READ_BY):
        return "its reader takes what is stored: it does not compute on the way"
    return SAYS.get(reason, "")
