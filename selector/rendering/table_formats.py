"""A sheet drawn for a terminal, as Markdown, and as a page of HTML that stands alone."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from selector.rendering.table import Line, Sheet, cell, columns
from selector.rendering.text import columns as breadth
from selector.rendering.text import in_ascii, visible, words, wrap

_GAP = 2
_LEAST_SENTENCE = 24
_SENTENCES = ("because", "target", "rest", "when", "wins", "does")
_WIDE = 120
_MOST_FACTS = 12

Column = tuple[str, str]


# --- terminal -----------------------------------------------------------------------------------------------------


def terminal(drawn: Sheet, width: int, *, ascii: bool = False) -> str:  # noqa: A002 - named as elsewhere in rendering
    """Draw lines of at most `width` columns: a column for each fact where that fits, else what is asked in one."""
    shown, widths = _layout(drawn, width)
    rows = [list(_row([_narrow(line, key) for _, key in shown], widths)) for line in drawn.lines]
    tall = any(len(row) > 1 for row in rows)
    lines = [*_wrapped([drawn.title], width, ""), "", *_row([_heading(name) for name, _ in shown], widths)]
    lines.append("  ".join("─" * one for one in widths))
    for at, row in enumerate(rows):
        lines += ["", *row] if at and tall else row
    for note in drawn.notes:
        lines += ["", *_wrapped([note], width, "  ")]
    text = "".join(f"{line}\n" for line in lines)
    return "".join(f"{in_ascii(line.replace('─', '-'))}\n" for line in text.splitlines()) if ascii else text


def _layout(drawn: Sheet, width: int) -> tuple[list[Column], list[int]]:
    """Choose the columns that a width has room for, and how wide each of them is."""
    full = list(columns(drawn))
    if not drawn.effective and _needed(drawn, full) <= width:
        return full, _widths(drawn, full, width)
    name, key = ("where it wins", "wins") if drawn.effective else ("when", "when")
    if width >= _WIDE:
        shown = [("row", "row"), (name, key), ("does", "does"), ("because", "because")]
    else:
        shown = [("row", "row and does"), (name, f"{key} and because")]
    return shown, _widths(drawn, shown, width)


def _needed(drawn: Sheet, shown: Sequence[Column]) -> int:
    return sum(_least(drawn, column) for column in shown) + _GAP * (len(shown) - 1)


def _widths(drawn: Sheet, shown: Sequence[Column], width: int) -> list[int]:
    """Give each column what it needs, and what is left to those with more to say; a column too many is cut."""
    most = max(width - _GAP * (len(shown) - 1), 2 * len(shown))
    widths = [_least(drawn, column) for column in shown]
    natural = [_natural(drawn, column) for column in shown]
    while sum(widths) > most:
        widths[widths.index(max(widths))] -= 1
    spare = most - sum(widths)
    while spare > 0 and widths != natural:
        short = (at for at, one in enumerate(widths) if one < natural[at])
        widths[min(short, key=lambda at: (shown[at][1] in _SENTENCES, widths[at] - natural[at]))] += 1
        spare -= 1
    return widths


def _heading(name: str) -> list[str]:
    """Break the name of a fact behind its dots, so that a narrow column has room for it."""
    return re.sub(r"\.(?=.)", ". ", name).split(" ") if " " not in name else [name]


def _texts(drawn: Sheet, column: Column) -> Iterator[str]:
    name, key = column
    yield from _heading(name)
    for line in drawn.lines:
        yield from _narrow(line, key)


def _natural(drawn: Sheet, column: Column) -> int:
    return max(breadth(visible(text)) for text in _texts(drawn, column))


def _least(drawn: Sheet, column: Column) -> int:
    """Give the breadth of the longest word, or that of a few words where there are sentences."""
    longest = max((breadth(word.text) for text in _texts(drawn, column) for word in words(text)), default=1)
    return max(longest, min(_natural(drawn, column), _LEAST_SENTENCE if column[1] in _SENTENCES else 0))


def _narrow(line: Line, key: str) -> list[str]:
    """Give a cell; in a narrow table two of them share one."""
    if key == "does":
        return [f"{line.action} {line.target}".strip()]
    if key == "row and does":
        return [line.row, f"→ {line.action} {line.target}".rstrip()]
    if key.endswith(" and because"):
        return [*cell(line, key.partition(" ")[0]), f"– {line.because}"]
    return cell(line, key)


def _row(cells: Sequence[Sequence[str]], widths: Sequence[int]) -> Iterator[str]:
    """Lay the cells of a row side by side."""
    drawn = [_wrapped(part, width, "  ") for part, width in zip(cells, widths, strict=True)]
    for at in range(max(map(len, drawn))):
        parts = [part[at] if at < len(part) else "" for part in drawn]
        padded = (f"{part}{' ' * (width - breadth(part))}" for part, width in zip(parts, widths, strict=True))
        yield (" " * _GAP).join(padded).rstrip()


def _wrapped(texts: Sequence[str], width: int, indent: str) -> list[str]:
    """Break texts between words; what goes on stands below `indent`."""
    found = []
    for text in texts:
        longest = max((breadth(word.text) for word in words(text)), default=0)
        inset = indent if longest <= width - len(indent) else ""
        lines = wrap(words(text), max(width, 2), max(width - len(inset), 2))
        found += [
            f"{inset if at else ''}{' '.join(word.text for word in line)}" for at, line in enumerate(lines) if line
        ]
    return found


# --- Markdown -----------------------------------------------------------------------------------------------------

_STEERS = re.compile(r"([\\|*`\[\]]|(?<!\w)_|_(?!\w))")


def markdown(drawn: Sheet) -> str:
    """Write a table as GitHub's Markdown has it."""
    shown = _of_page(drawn)
    lines = [f"**{_marked(drawn.title)}**", ""]
    lines += [_piped(_marked(name) for name, _ in shown), _piped("---" for _ in shown)]
    for line in drawn.lines:
        lines.append(_piped("<br>".join(map(_marked, cell(line, key))) for _, key in shown))
    for note in drawn.notes:
        lines += ["", _marked(note)]
    return "".join(f"{line}\n" for line in lines)


def _piped(cells: Iterator[str] | Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")


def _marked(text: str) -> str:
    return _STEERS.sub(r"\\\1", html.escape(visible(text), quote=False))


def _of_page(drawn: Sheet) -> list[Column]:
    """Give the columns of a page, which is as wide as it needs to be but for very many facts."""
    shown = list(columns(drawn))
    if drawn.effective or len(drawn.facts) <= _MOST_FACTS:
        return shown
    return [("row", "row"), ("when", "when"), *shown[-3:]]


# --- HTML ---------------------------------------------------------------------------------------------------------

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem; }
caption { font-weight: 600; margin-bottom: .75rem; text-align: left; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; }
th, td { border-bottom: 1px solid color-mix(in srgb, currentColor 25%, transparent); padding: .4rem .75rem;
  text-align: left; vertical-align: top; }
thead th { border-bottom-width: 2px; white-space: nowrap; }
tbody th { font-weight: 600; white-space: nowrap; }
td p { margin: 0; }
"""


def page(drawn: Sheet) -> str:
    """Write a page that needs no other file: a table with a caption, and headers for its columns and rows."""
    shown, title = _of_page(drawn), html.escape(visible(drawn.title))
    head = "".join(f'<th scope="col">{html.escape(visible(name))}</th>' for name, _ in shown)
    body = "".join(f"<tr>{_cells(line, shown)}</tr>\n" for line in drawn.lines)
    notes = "".join(f"<p>{html.escape(visible(note))}</p>\n" for note in drawn.notes)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        f'<div class="wide" role="region" aria-label="{title}" tabindex="0">\n<table>\n<caption>{title}</caption>\n'
        f"<thead>\n<tr>{head}</tr>\n</thead>\n<tbody>\n{body}</tbody>\n</table>\n</div>\n{notes}"
        "</main>\n</body>\n</html>\n"
    )


def _cells(line: Line, shown: Sequence[Column]) -> Iterator[str] | str:
    return "".join(
        f'<th scope="row">{html.escape(visible(line.row))}</th>'
        if key == "row"
        else f"<td>{_paragraphs(cell(line, key))}</td>"
        for _, key in shown
    )


def _paragraphs(texts: Sequence[str]) -> str:
    escaped = [html.escape(visible(text)) for text in texts]
    return escaped[0] if len(escaped) == 1 else "".join(f"<p>{text}</p>" for text in escaped)


FORMATS: Mapping[str, Callable[[Sheet], str]] = {"markdown": markdown, "html": page}
