"""Pages with figures that stand alone: one HTML file, nothing loaded from anywhere.

>>> from gradwire.report import Page
>>> page = Page("A title")
>>> page.paragraph("What was done.")
>>> page.html().startswith("<!doctype html>")
True
"""

from gradwire.report.figures import Style, figure, styles, svg
from gradwire.report.page import Page

__all__ = ["Page", "Style", "figure", "styles", "svg"]
