"""Experiments whose results the documents quote, each with its results and its page."""
