"""Solvers of the linear head's optimum, by the shape of the problem.

==================  ============================================================================
`problem`           the objective, and the solution
`optimum`           `solve`: which solver takes which problem
`newton_cg`         truncated Newton: conjugate gradients with a diagonal preconditioner
`span`              the features it works on, rotated so that their second moments are diagonal
`newton_cg_gram`    truncated Newton in dual variables (W = ν X), for few rows with L2
`gram`              the Gram matrix it works on, and its preconditioner
`line_search`       the strong Wolfe line search of both
`lbfgs`             L-BFGS in float32, to come near the optimum of many rows
`path`              warm starts by interpolation between the optima of other coefficients
`separable`         whether there is an optimum at all: separation, by a linear programme
`together`          L-BFGS for a batch of small problems, in NumPy, uncompiled
`metric`            the rows they share, and the metric to descend in
==================  ============================================================================

"Truncated Newton", "forcing term" and the Wolfe conditions are those of Nocedal and Wright,
*Numerical Optimization*, chapters 3 and 7.
"""
