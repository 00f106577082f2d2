"""A spec as TOML."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from firthshot.experiments.spec.fields import Spec
    from firthshot.experiments.spec.geometric import GeometricSpec


def to_toml(spec: Spec | GeometricSpec) -> str:
    """Return a spec as TOML."""
    fields = spec.as_dict()
    tables = {key: value for key, value in fields.items() if isinstance(value, dict)}
    lines = [f"{key} = {toml_value(value)}" for key, value in fields.items() if key not in tables]
    for name, table in tables.items():
        lines += [
            "",
            f"[{name}]",
            *(f"{key} = {toml_value(value)}" for key, value in table.items()),
        ]
    return "\n".join(lines) + "\n"


def toml_value(value: Any) -> str:
    """Return a value as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    return (
        json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        if isinstance(value, str)
        else repr(value)
    )
