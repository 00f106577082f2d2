"""Vega, Vega-Lite and Vega-Embed as one script that a page can hold: no network, ever."""

from __future__ import annotations

import contextlib
import os
import sys
from importlib import metadata
from pathlib import Path


def vega_script() -> str:
    """Return the script, which defines ``window.vegaEmbed``.

    The package ``vl-convert-python`` carries the libraries and bundles them in some seconds; the
    result is kept in the user's cache folder, where it can be written.
    """
    kept = _cache_folder() / f"vega-{metadata.version('vl-convert-python')}.js"
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return kept.read_text("utf-8")
    import vl_convert

    script = vl_convert.javascript_bundle(_SNIPPET)
    with contextlib.suppress(OSError):
        from firthshot.experiments.store import write_whole

        kept.parent.mkdir(parents=True, exist_ok=True)
        write_whole(kept, script.encode())
    return script


_SNIPPET = "window.vegaEmbed = vegaEmbed;"


def _cache_folder() -> Path:
    """Return where this user's programs keep what they can make again."""
    if given := os.environ.get("XDG_CACHE_HOME"):
        return Path(given) / "firthshot"
    home = Path.home()
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "firthshot"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", home)) / "firthshot" / "cache"
    return home / ".cache" / "firthshot"
