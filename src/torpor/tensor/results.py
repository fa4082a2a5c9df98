"""What operations give that give several tensors, by PyTorch's names of the parts."""

from collections import namedtuple

# Along an axis: values, and the int64 places where they stand, of pools in the flattened axes.
Selected = namedtuple("Selected", "values indices")
Extremes = namedtuple("Extremes", "min max")
Scaled = namedtuple("Scaled", "mantissa exponent")
Histogram = namedtuple("Histogram", "hist bin_edges")  # counts (bins,), edges (bins + 1,)

# What the array API standard has for values that occur.
All = namedtuple("All", "values indices inverse_indices counts")
Counts = namedtuple("Counts", "values counts")
Inverse = namedtuple("Inverse", "values inverse_indices")

# --- matrices -------------------------------------------------------------------------------------
QR = namedtuple("QR", "Q R")  # A = Q R: Q has orthonormal columns, R is an upper triangle
SVD = namedtuple("SVD", "U S V")  # A = U diag(S) V.H of `Tensor.svd`, S descending
Factors = namedtuple("Factors", "U S Vh")  # A = U diag(S) Vh of `linalg.svd`
Polar = namedtuple("Polar", "U H")  # A = U H
Eigen = namedtuple("Eigen", "eigenvalues eigenvectors")  # the vectors as columns
LogDeterminant = namedtuple("LogDeterminant", "sign logabsdet")
Solved = namedtuple("Solved", "solution cloned_coefficient")  # and a copy of the triangle
Least = namedtuple("Least", "solution residuals rank singular_values")
# R, and below its diagonal the vectors v of reflections without the one that they begin with.
Reflections = namedtuple("Reflections", "a tau")
# A = P L U: P a permutation, L a lower triangle with ones on its diagonal, U an upper one.
LU = namedtuple("LU", "P L U")
# L (below the diagonal) and U in one matrix, and int32 places from 1 on: row i was swapped with row
# pivots[i], one after the other; info is from 1 on the first pivot that is 0, or 0.
Factored = namedtuple("Factored", "LU pivots")
Examined = namedtuple("Examined", "LU pivots info")
# NaN where there is no such matrix, and info (int32): 0, or from 1 on which pivot is 0, or which
# leading minor is the first that is not positive.
Checked = namedtuple("Checked", "result info")
CheckedInverse = namedtuple("CheckedInverse", "inverse info")
CheckedTriangle = namedtuple("CheckedTriangle", "L info")
