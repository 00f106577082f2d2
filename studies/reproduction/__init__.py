"""Rerun the paper on our banks."""
