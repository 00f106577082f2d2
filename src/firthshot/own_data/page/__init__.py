"""The page of a fit: what left-out rows say, and which rows to look at."""

from firthshot.own_data.page.render import render_fit

__all__ = ["render_fit"]
