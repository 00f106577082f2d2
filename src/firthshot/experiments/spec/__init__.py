"""What a run is asked for: typed, read from TOML, presets and settings, and checked."""

from firthshot.experiments.spec.choose import open_banks, settle_banks
from firthshot.experiments.spec.fields import Spec
from firthshot.experiments.spec.method import Calibration, Method
from firthshot.experiments.spec.methods import spec_methods
from firthshot.experiments.spec.reading import SpecError, build_spec, load_spec, preset_names
from firthshot.experiments.spec.writing import to_toml

__all__ = [
    "Calibration",
    "Method",
    "Spec",
    "SpecError",
    "build_spec",
    "load_spec",
    "open_banks",
    "preset_names",
    "settle_banks",
    "spec_methods",
    "to_toml",
]
