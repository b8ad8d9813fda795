"""How facts are printed: one JSON value, lines of JSON, or plain columns that a pipe can cut."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import click


def stamp(moment: datetime) -> str:
    """ISO 8601 in UTC, to the millisecond, as the dumps have promised it."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def maybe_stamp(moment: datetime | None) -> str | None:
    return None if moment is None else stamp(moment)


def print_json(value: object) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))


def print_lines(values: Iterable[Mapping[str, object]]) -> None:
    """One JSON object a line, as they come: nothing is held in memory."""
    write = sys.stdout.write
    for value in values:
        write(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n")


def print_facts(facts: Mapping[str, object]) -> None:
    """One fact a line, aligned; those that are not known are left out."""
    width = max((len(name) for name in facts), default=0)
    for name, value in facts.items():
        if value is not None:
            click.echo(f"{name:<{width}}  {value}")


def print_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Columns as wide as their widest cell; numbers to the right."""
    lines = [tuple(headings), *(tuple(_cell(cell) for cell in row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(headings))]
    for line in lines:
        cells = [
            cell.rjust(width) if _number(cell) else cell.ljust(width) for cell, width in zip(line, widths, strict=True)
        ]
        click.echo("  ".join(cells).rstrip())


def _cell(value: object) -> str:
    match value:
        case None:
            return "-"
        case int() if not isinstance(value, bool):
            return f"{value:,}"
        case datetime():
            return stamp(value)
        case _:
            return str(value)


def _number(cell: str) -> bool:
    return cell.replace(",", "").isdecimal()
