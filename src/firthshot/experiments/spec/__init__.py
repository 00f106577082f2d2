"""What a run is asked for: typed, read from TOML, presets and settings, and checked."""

from firthshot.experiments.spec.choose import open_banks, settle_banks
from firthshot.experiments.spec.fields import Spec
from firthshot.experiments.spec.geometric import GeometricSpec
from firthshot.experiments.spec.method import Calibration, Method
from firthshot.experiments.spec.methods import spec_methods
from firthshot.experiments.spec.reading import (
    SpecError,
    SpecProblem,
    build_any,
    build_spec,
    find_problems,
    load_any,
    load_geometric,
    load_spec,
    parse_assignment,
    preset_names,
    resolve,
    run_folder,
)
from firthshot.experiments.spec.writing import to_toml

__all__ = [
    "Calibration",
    "GeometricSpec",
    "Method",
    "Spec",
    "SpecError",
    "SpecProblem",
    "build_any",
    "build_spec",
    "find_problems",
    "load_any",
    "load_geometric",
    "load_spec",
    "open_banks",
    "parse_assignment",
    "preset_names",
    "resolve",
    "run_folder",
    "settle_banks",
    "spec_methods",
    "to_toml",
]
