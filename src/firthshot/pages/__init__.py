"""What every page of ours is made of: its style, its theme button, and text that cannot harm.

A page is one self-contained file. Names in it come from anyone's files: templates escape them,
data stand in script elements as JSON without angle brackets, and a policy runs our scripts alone.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import jinja2

PAGES = Path(__file__).parent


def page_style() -> Any:
    """Return the style sheet as markup."""
    from markupsafe import Markup

    return Markup((PAGES / "style.css").read_text("utf-8"))


def own_script(*files: Path) -> str:
    """Return the script of a page: the theme button, then the given files, as one text."""
    texts = [file.read_text("utf-8") for file in (PAGES / "theme.js", *files)]
    return "\n".join(texts).replace("</script", "<\\/script")


def script_json(content: Any) -> Any:
    """Return JSON that is safe inside a script element, whatever its strings say."""
    from markupsafe import Markup

    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)


def content_policy(scripts: Sequence[str], *, evaluates: bool = False) -> str:
    """Return a policy that runs these scripts and no others, and loads nothing.

    ``evaluates`` lets them compile expressions of their own, as Vega does.
    """
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    hashes = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    allowed = f"{hashes} 'unsafe-eval'" if evaluates else hashes
    return (
        f"default-src 'none'; script-src {allowed}; "
        "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    )


def page_templates(folder: Path) -> jinja2.Environment:
    """Return the templates of a folder, which escape whatever they are given."""
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
