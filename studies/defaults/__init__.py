"""Settle the default λ and l2 of FirthClassifier."""
