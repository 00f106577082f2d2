"""A user's own rows: read into features and labels, reported on, and written back as predictions.

`read_examples` is the one place that turns a source (a table, a bank, arrays) into `Examples`.
"""

from firthshot.own_data._encoded import embed_lines, takes_texts
from firthshot.own_data._examples import Columns, Examples, join_examples
from firthshot.own_data._match import matched_features
from firthshot.own_data._predictions import Predictions, predict, render, write
from firthshot.own_data._report import FitReport, report_fit
from firthshot.own_data._sources import read_examples
from firthshot.own_data._stdin import parse_items

__all__ = [
    "Columns",
    "Examples",
    "FitReport",
    "Predictions",
    "embed_lines",
    "join_examples",
    "matched_features",
    "parse_items",
    "predict",
    "read_examples",
    "render",
    "report_fit",
    "takes_texts",
    "write",
]
