"""The page of an experiment: one HTML file that needs no other, and the same findings as text for a terminal."""

import base64
import platform
import shlex
from collections.abc import Sequence
from html import escape

import gradwire
from gradwire.experiments.reproduce import style
from gradwire.experiments.reproduce.experiment import Check, Experiment, Findings, Row, Settings, Table

__all__ = ["command_line", "number", "page", "text"]

_JUDGED = {True: "holds", False: "does not hold", None: "reported"}

_CSS = """
:root { color-scheme: light; }
body { font: 16px/1.55 system-ui, "Segoe UI", "Liberation Sans", Arial, sans-serif; color: #1c1c1c;
  background: #fff; max-width: 860px; margin: 2.5rem auto; padding: 0 1.2rem; }
h1 { font-size: 1.65rem; line-height: 1.25; margin-bottom: .3rem; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; }
.source { color: #666; margin-top: 0; }
.box { border-left: 4px solid #bbb; background: #f6f6f4; padding: .7rem 1rem; margin: 1rem 0; }
.box b { display: block; font-size: .8rem; letter-spacing: .04em; text-transform: uppercase; color: #555; }
.holds { border-color: #009E73; } .fails { border-color: #D55E00; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .88rem; width: 100%; }
caption { text-align: left; font-weight: 600; padding-bottom: .4rem; }
th, td { text-align: left; padding: .32rem .7rem .32rem 0; border-bottom: 1px solid #e2e2e2; vertical-align: top; }
th { border-bottom: 2px solid #999; }
td.n, th.n { text-align: right; padding-right: 1.4rem; font-variant-numeric: tabular-nums; }
.note, figcaption { color: #444; font-size: .9rem; }
figure { margin: 1.4rem 0; } figure img { width: 100%; height: auto; }
.yes { color: #006b4e; font-weight: 600; } .no { color: #b34700; font-weight: 600; } .so { color: #666; }
pre { background: #f3f3f1; padding: .7rem 1rem; overflow-x: auto; font-size: .88rem; }
"""


def number(value: str | float | int | None) -> str:
    """A cell's text: three significant digits, no exponent where a person needs none.

    >>> number(0.01543), number(159.2), number(12345.6), number(2e-7), number(7), number(None)
    ('0.0154', '159', '12,346', '2.00e-07', '7', '–')
    """
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if isinstance(value, int) or value == 0:
        return f"{value:,}" if isinstance(value, int) else "0"
    exponent = int(f"{value:.2e}".partition("e")[2])  # after rounding to three digits
    if exponent < -4:
        return f"{value:.2e}"
    return f"{value:,.{max(0, 2 - exponent)}f}"


def command_line(experiment: Experiment, settings: Settings) -> str:
    """The command that gives this page again."""
    quick = " --quick" if settings.quick else ""
    usual = experiment.seeds[settings.quick]
    seeds = f" --seeds {settings.seeds}" if settings.seeds != usual else ""
    return f"gradwire reproduce {shlex.quote(experiment.name)}{quick}{seeds}"


def page(experiment: Experiment, findings: Findings, rows: Sequence[Row], settings: Settings) -> str:
    """The HTML page, its figures inside."""
    good = "holds" if findings.holds else "fails"
    seconds = sum(row["seconds"] for row in rows)
    run = (
        f"{'A quick run' if settings.quick else 'The full run'}: {len(rows):,} measurements, {settings.seeds} "
        f"seed{'s' if settings.seeds > 1 else ''}, {seconds:,.0f} seconds of computing. gradwire "
        f"{gradwire.__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}."
    )
    parts = [
        f"<h1>{escape(experiment.title)}</h1>",
        f'<p class="source">{escape(experiment.source)}</p>',
        f'<div class="box"><b>The claim</b>{escape(experiment.claim)}</div>',
        f'<div class="box {good}"><b>What was found</b>{escape(findings.verdict)}</div>',
        _html_table(_checks_table(findings.checks)),
    ]
    for plot in findings.plots:
        data = base64.b64encode(style.svg(plot.figure)).decode()
        parts.append(
            f'<figure><img alt="{escape(plot.caption)}" src="data:image/svg+xml;base64,{data}">'
            f"<figcaption>{escape(plot.caption)}</figcaption></figure>"
        )
    parts += [_html_table(table) for table in findings.tables]
    parts.append("<h2>What was done</h2>")
    parts += [f"<p>{escape(paragraph)}</p>" for paragraph in experiment.method.strip().split("\n\n")]
    if findings.differences:
        items = "".join(f"<li>{escape(text)}</li>" for text in findings.differences)
        parts.append(f"<h2>Differences from the paper</h2><ul>{items}</ul>")
    parts.append(
        f"<h2>To repeat it</h2><pre>{escape(command_line(experiment, settings))}</pre><p>{escape(run)} Every "
        "measurement is a line of results.jsonl beside this page; the figures lie there as PNG and SVG.</p>"
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(experiment.title)} – gradwire</title><style>{_CSS}</style></head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def text(findings: Findings) -> str:
    """Verdict, checks and tables for a terminal."""
    tables = [_checks_table(findings.checks), *findings.tables]
    return "\n\n".join([findings.verdict, *map(_text_table, tables)])


def _checks_table(checks: Sequence[Check]) -> Table:
    rows = [(check.statement, check.expected, check.found, _JUDGED[check.holds]) for check in checks]
    return Table("Statement by statement", ("statement", "expected", "found", "verdict"), rows)


def _numeric(table: Table) -> list[bool]:
    """Columns that hold numbers, or nothing, in every row: set to the right."""
    columns = range(len(table.columns))
    return [bool(table.rows) and all(not isinstance(row[c], str) for row in table.rows) for c in columns]


def _html_table(table: Table) -> str:
    right = _numeric(table)
    classes = [' class="n"' if r else "" for r in right]
    judged = {"holds": "yes", "does not hold": "no", "reported": "so"}

    def cell(c: int, value: str | float | int | None) -> str:
        mark = judged.get(str(value)) if table.columns[c] == "verdict" else None
        return f"<td{f' class={chr(34)}{mark}{chr(34)}' if mark else classes[c]}>{escape(number(value))}</td>"

    head = "".join(f"<th{classes[c]}>{escape(name)}</th>" for c, name in enumerate(table.columns))
    body = "".join(f"<tr>{''.join(cell(c, value) for c, value in enumerate(row))}</tr>" for row in table.rows)
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    return f'<div class="wide"><table><caption>{escape(table.title)}</caption><tr>{head}</tr>{body}</table></div>{note}'


def _text_table(table: Table) -> str:
    right = _numeric(table)
    cells = [list(table.columns), *([number(value) for value in row] for row in table.rows)]
    widths = [max(len(row[c]) for row in cells) for c in range(len(table.columns))]
    lines = [
        "  ".join(value.rjust(w) if r else value.ljust(w) for value, w, r in zip(row, widths, right, strict=True))
        for row in cells
    ]
    return "\n".join([table.title, *(("  " + line).rstrip() for line in lines), *filter(None, [table.note])])
