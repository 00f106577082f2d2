"""A user's own rows: read into features and labels, reported on, and written back as predictions.

`fit` returns a `FittedModel`. `read_examples` is the one place that turns a source (pictures, a
table of texts or of features, a feature file, a bank) into `Examples`; `parse_items` and
`embed_lines` do it for lines of text.
"""

from firthshot.own_data._encoded import (
    Embedder,
    embed_lines,
    embed_picture,
    picture_files,
    read_pictures,
)
from firthshot.own_data._examples import (
    Columns,
    Examples,
    join_examples,
    refuse_contradictions,
)
from firthshot.own_data._fitting import Changes, fit
from firthshot.own_data._heads import EXPORTS, HEADS, make_head
from firthshot.own_data._many import KINDS_IN_PARTS, PictureRun
from firthshot.own_data._model import FittedModel, load
from firthshot.own_data._predictions import (
    KINDS,
    Predictions,
    as_predictions,
    matched_features,
    model_features,
    predict,
    render,
    write,
)
from firthshot.own_data._remarks import unused_remarks
from firthshot.own_data._report import FitReport, answer_lines, report_fit, title_line
from firthshot.own_data._sources import is_text, read_examples
from firthshot.own_data._texts import decode, parse_items

__all__ = [
    "EXPORTS", "HEADS", "KINDS", "KINDS_IN_PARTS", "Changes", "Columns", "Embedder", "Examples",
    "FitReport", "FittedModel", "PictureRun", "Predictions", "answer_lines", "as_predictions",
    "decode", "embed_lines", "embed_picture", "fit", "is_text", "join_examples", "load",
    "make_head", "matched_features", "model_features", "parse_items", "picture_files",
    "predict", "read_examples", "read_pictures", "refuse_contradictions", "render",
    "report_fit", "title_line", "unused_remarks", "write",
]  # fmt: skip
