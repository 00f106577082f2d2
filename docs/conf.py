"""Build the site: `make docs`. The source is the repository, so that every link works there too."""

import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent / "src")]

shutil.rmtree(HERE / "api", ignore_errors=True)  # pages of names that are gone

from firthshot import __version__  # noqa: E402

project = "firthshot"
author = "The firthshot developers"
copyright = f"2026, {author}"  # noqa: A001
version = release = __version__

root_doc = "docs/index"
include_patterns = [
    "docs/**",
    "studies/*/*.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "CODE_OF_CONDUCT.md",
]
exclude_patterns = [
    ".*",
    "banks",
    "benchmarks",
    "build",
    "docs/_*",
    "runs",
    "scripts",
    "src",
    "tests",
    "weights",
    "**/kept",
]
extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx_design",
    "from_code",
]

# Other projects' pages are reached in the workflow alone: a build here needs no network.
_ONLINE = {
    "python": ("https://docs.python.org/3", None),
    "numpy": ("https://numpy.org/doc/stable", None),
    "sklearn": ("https://scikit-learn.org/stable", None),
}
intersphinx_mapping = _ONLINE if tags.has("online") else {}  # noqa: F821

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
templates_path = [str(HERE / "_templates")]  # autosummary looks beside the sources

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc's sections say types in words
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

html_theme = "pydata_sphinx_theme"
html_title = f"firthshot {version}"
html_static_path = ["_static"]
html_css_files = ["firthshot.css"]
html_extra_path = ["_root"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "show_nav_level": 2,
    "header_links_before_dropdown": 6,
    "navigation_with_keys": False,
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}
html_context = {"default_mode": "auto"}
