"""From a table and the text of a formula to a design matrix.

What a formula may say is a list, and its values come from a walk over its tree (`_language`):
nothing that is typed is executed, unless `allow_python` asks for it.
"""

from __future__ import annotations

from firthshot.formulas._model_data import (
    ModelData,
    make_model_data,
    new_offset,
    new_rows,
    variables_of,
)
from firthshot.formulas._tables import as_pandas, read_table

__all__ = [
    "ModelData", "as_pandas", "make_model_data", "new_offset", "new_rows", "read_table",
    "variables_of",
]  # fmt: skip
