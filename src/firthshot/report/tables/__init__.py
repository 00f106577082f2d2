"""The tables of a report, as rows of plain values and as CSV, Markdown and LaTeX files."""

from __future__ import annotations

from firthshot.report.tables.make import make_tables, write_tables

__all__ = ["make_tables", "write_tables"]
