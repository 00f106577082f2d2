"""What a run is asked for: typed, read from TOML, presets and settings, and checked."""

from firthshot.experiments.spec.choose import open_banks, settle_banks
from firthshot.experiments.spec.fields import GeometricSpec, Spec, to_toml
from firthshot.experiments.spec.reading import (
    SpecError,
    SpecProblem,
    build_any,
    find_problems,
    load_any,
    load_spec,
    paper_items,
    parse_assignment,
    preset_names,
    presets_of,
    resolve,
    run_folder,
)

__all__ = [
    "GeometricSpec", "Spec", "SpecError", "SpecProblem", "build_any", "find_problems", "load_any",
    "load_spec", "open_banks", "paper_items", "parse_assignment", "preset_names", "presets_of",
    "resolve", "run_folder", "settle_banks", "to_toml",
]  # fmt: skip
