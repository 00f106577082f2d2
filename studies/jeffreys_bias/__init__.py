"""Measure the bias of exact Firth regression."""
