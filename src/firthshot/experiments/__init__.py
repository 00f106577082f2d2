"""A spec → a plan of cells → parts on disk → a summary.

``load_spec`` reads a preset or a TOML file, ``settle_banks`` names its banks, ``run`` trains what
it asks for into a folder that can be resumed::

    from pathlib import Path
    from firthshot.experiments import load_spec, run, settle_banks

    spec = settle_banks(load_spec("quickstart", {"trials": 20}))
    run(spec, Path("runs/quickstart"))
"""

from firthshot.experiments.plan import Plan, make_plan
from firthshot.experiments.runner import RunOutcome, run  # the function hides the drawer `run`
from firthshot.experiments.spec import Spec, SpecError, load_spec, settle_banks

__all__ = [
    "Plan",
    "RunOutcome",
    "Spec",
    "SpecError",
    "load_spec",
    "make_plan",
    "run",
    "settle_banks",
]
