"""A page as one HTML file: title, text, tables, figures; no script and nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

__all__ = ["Page"]

CSS = """
:root { color-scheme: light; }
body { font: 16px/1.55 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; color: #222; background: #fff;
       max-width: 70rem; margin: 2.5rem auto; padding: 0 1.5rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .4rem; }
h2 { font-size: 1.2rem; margin: 2.4rem 0 .7rem; }
p { max-width: 48rem; margin: .6rem 0; }
p.note { background: #fff4e0; border-left: 4px solid #e69f00; padding: .5rem .8rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; }
th, td { padding: .38rem .65rem; text-align: right; white-space: nowrap; border-bottom: 1px solid #e2e2e2; }
th { font-weight: 600; border-bottom: 2px solid #888; vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
td.text { text-align: left; white-space: normal; }
.swatch { display: inline-block; width: .75em; height: .75em; border-radius: 2px; margin-right: .5em; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1rem; font-size: .92rem; margin: .6rem 0; }
dt { font-weight: 600; } dd { margin: 0; overflow-wrap: anywhere; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(26rem, 1fr)); gap: 1.5rem 2rem; }
figure { margin: 0; } figure svg { width: 100%; height: auto; display: block; }
figcaption { font-size: .92rem; color: #444; margin-top: .3rem; }
pre { background: #f5f5f5; padding: .7rem .9rem; overflow-x: auto; font-size: .9rem; }
footer { margin-top: 3rem; font-size: .85rem; color: #666; }
@media print { body { margin: 0; max-width: none; } figure { break-inside: avoid; } }
"""


class Page:
    """Collects the parts of a page; every text is escaped, a figure is taken as it is."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._parts: list[str] = []

    def heading(self, text: str) -> None:
        """Add a heading."""
        self._parts.append(f"<h2>{escape(text)}</h2>")

    def paragraph(self, text: str, note: bool = False) -> None:
        """Add a paragraph; a note is set off."""
        opening = '<p class="note">' if note else "<p>"
        self._parts.append(f"{opening}{escape(text)}</p>")

    def table(self, heads: Sequence[str], lines: Sequence[Sequence[str]], colours: Sequence[str] = ()) -> None:
        """Add a table of texts, its first column to the left; colours mark the lines; a unit goes under its head."""
        top = "".join(f'<th scope="col">{escape(head).replace(", ", "<br>")}</th>' for head in heads)
        body = []
        for i, line in enumerate(lines):
            swatch = f'<span class="swatch" style="background:{colours[i]}"></span>' if colours else ""
            cells = "".join(f"<td>{swatch if j == 0 else ''}{escape(cell)}</td>" for j, cell in enumerate(line))
            body.append(f"<tr>{cells}</tr>")
        self._parts.append(
            f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{"".join(body)}</tbody></table></div>'
        )

    def terms(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Add a list of names and their explanations."""
        items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in pairs)
        self._parts.append(f"<dl>{items}</dl>")

    def figures(self, figures: Sequence[tuple[str, str]]) -> None:
        """Add figures side by side, each an svg element and its caption."""
        items = (
            f'<figure role="img" aria-label="{escape(caption)}">{drawn}<figcaption>{escape(caption)}</figcaption>'
            "</figure>"
            for drawn, caption in figures
        )
        self._parts.append(f'<div class="figures">{"".join(items)}</div>')

    def code(self, text: str) -> None:
        """Add lines for the shell."""
        self._parts.append(f"<pre>{escape(text)}</pre>")

    def footer(self, text: str) -> None:
        """Add the last line."""
        self._parts.append(f"<footer>{escape(text)}</footer>")

    def html(self) -> str:
        """Return the page."""
        title, body = escape(self._title), "\n".join(self._parts)
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{title}</title>\n'
            f"<style>{CSS}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{body}\n</body>\n</html>\n"
        )
