"""A user's own rows: read into features and labels, reported on, and written back as predictions.

`read_examples` is the one place that turns a source (pictures, a table of texts or of features, a
feature file, a bank) into `Examples`; `parse_items` and `embed_lines` do it for lines of text.
"""

from firthshot.own_data._encoded import Embedder, embed_lines, embed_picture
from firthshot.own_data._examples import (
    Columns,
    Examples,
    join_examples,
    refuse_contradictions,
)
from firthshot.own_data._predictions import (
    KINDS,
    Predictions,
    matched_features,
    model_features,
    predict,
    render,
    write,
)
from firthshot.own_data._remarks import columns_differ, unused_remarks
from firthshot.own_data._report import FitReport, report_fit
from firthshot.own_data._sources import read_examples
from firthshot.own_data._stdin import decode, parse_items

__all__ = [
    "KINDS",
    "Columns",
    "Embedder",
    "Examples",
    "FitReport",
    "Predictions",
    "columns_differ",
    "decode",
    "embed_lines",
    "embed_picture",
    "join_examples",
    "matched_features",
    "model_features",
    "parse_items",
    "predict",
    "read_examples",
    "refuse_contradictions",
    "render",
    "report_fit",
    "unused_remarks",
    "write",
]
