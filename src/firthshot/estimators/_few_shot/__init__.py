"""The parts of `FewShotClassifier`: coordinates of the rows, four heads, and their blend.

Everything here is NumPy on small arrays: no fit waits for a compiled kernel.
"""
