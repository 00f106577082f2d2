"""A week of kills and mutated inputs as a command: ``python -m tests.campaign``."""
