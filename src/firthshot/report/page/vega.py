"""Vega, Vega-Lite and Vega-Embed as one script that a page can hold: no network, ever."""

from __future__ import annotations

import contextlib
from importlib import metadata

from firthshot.files import user_cache, write_whole


def vega_script() -> str:
    """Return the script, which defines ``window.vegaEmbed``.

    The package ``vl-convert-python`` carries the libraries and bundles them in some seconds; the
    result is kept in the user's cache folder (``FIRTHSHOT_CACHE``), where it can be written.
    """
    kept = user_cache() / f"vega-{metadata.version('vl-convert-python')}.js"
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return kept.read_text("utf-8")
    import vl_convert

    script = vl_convert.javascript_bundle(_SNIPPET)
    with contextlib.suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_whole(kept, script.encode())
    return script


_SNIPPET = "window.vegaEmbed = vegaEmbed;"
