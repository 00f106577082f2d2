"""Solvers of the linear head's optimum, by the shape of the problem.

==================  ============================================================================
`optimum`           `solve`: which solver takes which problem, and the order of a path
`newton_cg`         Newton's method with conjugate gradients, on features in the span of the rows
`newton_cg_gram`    the same on the Gram matrix of the rows (few rows, L2)
`lbfgs`             the way to the optimum's neighbourhood where rows are many
`line_search`       the line search of both Newton methods
`path`              starting points from the optima of other coefficients
`separable`         whether there is an optimum at all
==================  ============================================================================
"""
