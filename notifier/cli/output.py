"""How facts are printed: JSON, columns that a pipe can cut, or what a terminal shows of the same."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import click

from notifier.cli.screen import console, distance, facts_grid, harmless, styled, table, watched

SHOWN_OF_ID = 8
"""Characters of a random id; JSON has it whole, and `throttle lift` takes as many as are clear."""


def stamp(moment: datetime) -> str:
    """ISO 8601 in UTC, to the millisecond, as the dumps have promised it."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def maybe_stamp(moment: datetime | None) -> str | None:
    return None if moment is None else stamp(moment)


def print_json(value: object) -> None:
    """One line, as programs read it; indented on a terminal, where a person does."""
    if sys.stdout.isatty():
        click.echo(json.dumps(value, ensure_ascii=False, indent=2))
    else:
        click.echo(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def print_lines(values: Iterable[Mapping[str, object]]) -> None:
    """One JSON object a line, as they come: nothing is held in memory."""
    write = sys.stdout.write
    for value in values:
        write(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n")


def print_sentence(words: str) -> None:
    """A terminal breaks it between words."""
    if watched():
        console().print(styled(words))
    else:
        click.echo(harmless(words))


def print_facts(facts: Mapping[str, object]) -> None:
    """One fact a line, aligned; those that are not known are left out."""
    known = {name: cell(value) for name, value in facts.items() if value is not None}
    if watched():
        console().print(facts_grid(known.items()))
        return
    width = max((len(name) for name in known), default=0)
    for name, value in known.items():
        click.echo(f"{name:<{width}}  {value}")


def print_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Columns as wide as their widest cell; numbers to the right. A terminal is told how far away a time is."""
    listed = [tuple(row) for row in rows]
    right = [i for i in range(len(headings)) if listed and all(_number(cell(row[i])) for row in listed)]
    if watched():
        console().print(table(headings, [[_near(value) for value in row] for row in listed], right=right))
        return
    lines = [tuple(headings), *(tuple(cell(value) for value in row) for row in listed)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(headings))]
    for line in lines:
        cells = [
            word.rjust(width) if i in right else word.ljust(width)
            for i, (word, width) in enumerate(zip(line, widths, strict=True))
        ]
        click.echo("  ".join(cells).rstrip())


def cell(value: object) -> str:
    """Nothing a person wrote can steer who reads it: control characters are replaced."""
    match value:
        case None:
            return "-"
        case int() if not isinstance(value, bool):
            return f"{value:,}"
        case datetime():
            return stamp(value)
        case _:
            return harmless(str(value))


def _near(value: object) -> str:
    return distance(value) if isinstance(value, datetime) else cell(value)


def _number(word: str) -> bool:
    return word.replace(",", "").isdecimal()
