"""Hostile formulas, a block of them in a process of its own with bounds on memory and time."""

from __future__ import annotations

import json
import os
import subprocess
import sys

CODE = """
import json, resource, sys
from formulas import formula_mutations
formula_mutations.attack(0, 0)  # imports what formulas need
formula_mutations.LONGEST_SECONDS = 10.0
resource.setrlimit(resource.RLIMIT_DATA, (2 * 10**9, resource.RLIM_INFINITY))
print(json.dumps(formula_mutations.attack(int(sys.argv[1]), int(sys.argv[2]))))
"""
_PATIENCE = 1_800  # seconds for a block, which takes some seconds


def try_formulas(count: int, seed: int) -> tuple[int, int, list[str]]:
    """Return how many were accepted and refused; a fault ends the block, which counts nothing."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", CODE, str(count), str(seed)],
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 0, 0, [f"formulas of seed {seed}: no end after {_PATIENCE} s"]
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:]
        return 0, 0, [f"formulas of seed {seed}: exit {done.returncode}, {''.join(last)[:500]}"]
    counts = json.loads(done.stdout)
    return counts["accepted"], counts["refused"], []
