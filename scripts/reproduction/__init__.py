"""The machinery of scripts/reproduce.py: plan, runs, kept tables, and the page made of them."""
